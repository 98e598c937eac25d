"""How much one transaction writes, by how long the one before held the lock; with a clock that only the test moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from jobs.store.disk_space import free_pages
from jobs.store.disk_space.free_pages import FIRST, HOLD_S, LEAST, MOST, write_in_turns


class Clock:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(free_pages, "time", clock)
    return clock


def database(clock: Clock, *, is_sqlite: bool, wait_s: float = 0.0) -> SimpleNamespace:
    """A database whose lock is free after `wait_s`."""

    @contextmanager
    def writing() -> Iterator[None]:
        clock.now += wait_s
        yield

    return SimpleNamespace(is_sqlite=is_sqlite, writing=writing)


def amounts(clock: Clock, seconds_of_a_row: list[float], *, is_sqlite: bool = True, wait_s: float = 0.0) -> list[int]:
    """What each transaction is asked to write, when a row of each takes so long."""
    asked: list[int] = []

    def write(_connection: object, amount: int) -> int:
        if len(asked) == len(seconds_of_a_row):
            return 0
        clock.now += seconds_of_a_row[len(asked)] * amount
        asked.append(amount)
        return amount

    write_in_turns(database(clock, is_sqlite=is_sqlite, wait_s=wait_s), write, lambda rows: None)  # type: ignore[arg-type]
    return asked


def test_the_first_transaction_is_small_and_the_next_are_as_long_as_was_aimed_at(clock: Clock) -> None:
    asked = amounts(clock, [1e-4] * 12)

    assert asked[0] == FIRST
    assert asked[-1] * 1e-4 == pytest.approx(HOLD_S, rel=0.1)


def test_after_a_slow_transaction_the_next_is_smaller_at_once(clock: Clock) -> None:
    *_, before, slow, following = amounts(clock, [*[1e-4] * 10, 1e-3, 1e-3])

    assert slow == pytest.approx(before, abs=1)
    assert following == slow // 4


def test_the_amount_stays_within_its_bounds(clock: Clock) -> None:
    assert max(amounts(clock, [1e-9] * 20)) == MOST
    assert amounts(clock, [10.0] * 5)[-1] == LEAST


def test_the_wait_for_the_lock_makes_no_transaction_smaller(clock: Clock) -> None:
    assert amounts(clock, [1e-4] * 12, wait_s=5.0) == pytest.approx(amounts(clock, [1e-4] * 12), abs=1)


def test_on_sqlite_the_lock_is_free_for_as_long_as_it_was_held(clock: Clock) -> None:
    asked = amounts(clock, [1e-4] * 5)

    assert clock.slept == pytest.approx([1e-4 * amount for amount in asked])
    assert sum(clock.slept) == pytest.approx(clock.now / 2)


def test_on_a_server_every_transaction_is_large_and_there_is_no_pause(
    clock: Clock,
) -> None:
    assert amounts(clock, [1e-3] * 5, is_sqlite=False) == [MOST] * 5
    assert clock.slept == []
