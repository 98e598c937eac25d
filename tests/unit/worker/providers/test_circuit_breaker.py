"""When a provider that failed is asked again."""

from jobs.answers import Unanswered
from jobs.providers import Reason
from worker.providers.circuit_breaker import FIRST_PAUSE_S, LONGEST_PAUSE_S, CircuitBreaker

DEAD = Unanswered(Reason.UNREACHABLE, "connection refused")


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_provider_that_failed_is_not_asked_during_the_pause_and_then_by_one_caller() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    assert breaker.why_open() is None

    breaker.failed(DEAD)

    assert breaker.why_open() == DEAD
    clock.now += FIRST_PAUSE_S
    assert breaker.why_open() is None
    assert breaker.why_open() == DEAD, "another lane asks it already"
    assert not breaker.is_closed


def test_each_failed_probe_doubles_the_pause_up_to_five_minutes() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    breaker.failed(DEAD)
    pauses = []
    for _ in range(8):
        start = clock.now
        while breaker.why_open():
            clock.now += 1.0
        pauses.append(clock.now - start)
        breaker.failed(DEAD)

    assert pauses == [5, 10, 20, 40, 80, 160, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_an_answer_closes_the_breaker_and_the_next_pause_is_short_again() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    for _ in range(3):
        breaker.failed(DEAD)
        clock.now += LONGEST_PAUSE_S
        assert breaker.why_open() is None

    breaker.answered()
    breaker.failed(DEAD)
    clock.now += FIRST_PAUSE_S

    assert breaker.why_open() is None


def test_lanes_that_the_same_failure_hits_do_not_lengthen_the_pause() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    for _ in range(4):
        breaker.failed(DEAD)
    clock.now += FIRST_PAUSE_S

    assert breaker.why_open() is None
