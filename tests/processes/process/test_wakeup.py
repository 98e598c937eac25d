"""Wake-ups of lanes: none is lost, and the worker reports idle only after all lanes have looked for work."""

import threading
import time
from collections.abc import Callable

from worker.process.wakeup import Wakeup

LONG_S = 20.0


def waiting(wakeup: Wakeup, seen: int) -> threading.Thread:
    thread = threading.Thread(target=wakeup.wait, args=(LONG_S, seen), daemon=True)
    thread.start()
    return thread


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONG_S / 2
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_wake_up_reaches_every_lane() -> None:
    reported: list[int] = []
    wakeup = Wakeup(2, reported.append)
    lanes = [waiting(wakeup, wakeup.count) for _ in range(2)]
    until(lambda: reported)

    wakeup.wake()

    for lane in lanes:
        lane.join(LONG_S / 2)
    assert not any(lane.is_alive() for lane in lanes)


def test_a_wake_up_while_a_lane_looks_for_work_is_not_lost() -> None:
    wakeup = Wakeup()
    seen = wakeup.count
    wakeup.wake()  # while the lane is leasing

    started = time.monotonic()
    wakeup.wait(LONG_S, seen)

    assert time.monotonic() - started < LONG_S / 2


def test_idle_is_reported_when_all_lanes_wait_and_none_has_missed_a_wake_up() -> None:
    reported: list[int] = []
    wakeup = Wakeup(2, reported.append)
    first = waiting(wakeup, 0)
    assert reported == []
    second = waiting(wakeup, 0)
    until(lambda: reported == [0])

    wakeup.wake(3)
    first.join(5), second.join(5)
    waiting(wakeup, 3)
    time.sleep(0.05)
    assert reported == [0]  # the other lane has not looked for work since
    waiting(wakeup, 3)
    until(lambda: reported == [0, 3])


def test_a_lane_that_missed_a_wake_up_does_not_count_as_idle() -> None:
    reported: list[int] = []
    wakeup = Wakeup(2, reported.append)
    wakeup.wake()
    wakeup.wait(LONG_S, 0)  # returns at once, because of the missed wake-up
    waiting(wakeup, 1)
    time.sleep(0.05)

    assert reported == []


def test_idle_is_reported_once_even_if_lanes_look_for_work_again() -> None:
    reported: list[int] = []
    wakeup = Wakeup(1, reported.append)

    for _ in range(3):
        wakeup.wait(0.001, wakeup.count)

    assert reported == [0]


def test_after_close_no_lane_waits() -> None:
    wakeup = Wakeup()
    lane = waiting(wakeup, 0)

    wakeup.close()

    lane.join(LONG_S / 2)
    assert not lane.is_alive()
    started = time.monotonic()
    wakeup.wait(LONG_S, 0)
    wakeup.sleep(LONG_S)
    assert time.monotonic() - started < LONG_S / 2
