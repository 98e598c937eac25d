"""What wakes the lanes: no ring is lost, and 'all rest' is said only when all have looked."""

import threading
import time
from collections.abc import Callable

from worker.process.wakeup import Wakeup

LONG_S = 20.0


def resting(bell: Wakeup, heard: int) -> threading.Thread:
    thread = threading.Thread(target=bell.rest, args=(LONG_S, heard), daemon=True)
    thread.start()
    return thread


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_ring_ends_the_rest_of_every_lane() -> None:
    told: list[int] = []
    bell = Wakeup(2, told.append)
    lanes = [resting(bell, bell.rung) for _ in range(2)]
    until(lambda: told)

    bell.ring()

    for lane in lanes:
        lane.join(5)
    assert not any(lane.is_alive() for lane in lanes)


def test_a_ring_while_a_lane_looks_for_work_is_not_lost() -> None:
    bell = Wakeup()
    heard = bell.rung
    bell.ring()  # while it leases

    started = time.monotonic()
    bell.rest(LONG_S, heard)

    assert time.monotonic() - started < 1


def test_it_is_told_when_all_lanes_rest_and_which_rings_they_had_heard() -> None:
    told: list[int] = []
    bell = Wakeup(2, told.append)
    first = resting(bell, 0)
    assert told == []
    second = resting(bell, 0)
    until(lambda: told == [0])

    bell.ring(3)
    first.join(5), second.join(5)
    resting(bell, 3)
    time.sleep(0.05)
    assert told == [0]  # the other has not looked since
    resting(bell, 3)
    until(lambda: told == [0, 3])


def test_a_lane_that_missed_a_ring_does_not_count_as_resting() -> None:
    told: list[int] = []
    bell = Wakeup(2, told.append)
    bell.ring()
    bell.rest(LONG_S, 0)  # comes back at once
    resting(bell, 1)
    time.sleep(0.05)

    assert told == []


def test_looking_by_oneself_is_no_news() -> None:
    told: list[int] = []
    bell = Wakeup(1, told.append)

    for _ in range(3):
        bell.rest(0.001, bell.rung)

    assert told == [0]


def test_a_closed_bell_lets_nobody_rest() -> None:
    bell = Wakeup()
    lane = resting(bell, 0)

    bell.close()

    lane.join(5)
    assert not lane.is_alive()
    started = time.monotonic()
    bell.rest(LONG_S, 0)
    bell.pause(LONG_S)
    assert time.monotonic() - started < 1
