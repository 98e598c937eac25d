"""Wake-ups of lanes: none is lost, one lane looks for all, and the worker reports idle only when all lanes wait."""

import threading
import time
from collections.abc import Callable

from worker.process.wakeup import Wakeup

LONG_S = 20.0
LANES = 4


class Lanes:
    """Lanes that look for work as `worker.child_process` does; `work` of them find some, which never ends."""

    def __init__(self, wakeup: Wakeup, work: int = 0, interval_s: float = LONG_S) -> None:
        self.wakeup, self.work, self.interval_s = wakeup, work, interval_s
        self.looks = self.busy = 0
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(LANES)]
        for thread in self.threads:
            thread.start()

    def _run(self) -> None:
        while True:
            self.wakeup.begin_look()
            with self._lock:
                self.looks += 1
                if self.work:
                    self.work -= 1
                    self.busy += 1
                    break
            self.wakeup.wait(self.interval_s)
        self.wakeup.found_work()


def waiting(wakeup: Wakeup) -> threading.Thread:
    thread = threading.Thread(target=wakeup.wait, args=(LONG_S,), daemon=True)
    thread.start()
    return thread


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONG_S / 2
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_after_a_wake_up_one_lane_looks_for_all() -> None:
    reported: list[int] = []
    wakeup = Wakeup(LANES, reported.append)
    lanes = Lanes(wakeup)
    until(lambda: reported)
    assert lanes.looks == LANES  # each at its start

    wakeup.wake()

    until(lambda: reported == [0, 1])
    assert lanes.looks == LANES + 1


def test_a_wake_up_wakes_as_many_lanes_as_there_is_work() -> None:
    reported: list[int] = []
    wakeup = Wakeup(LANES, reported.append)
    lanes = Lanes(wakeup)
    until(lambda: reported)
    lanes.work = 2

    wakeup.wake()

    until(lambda: lanes.looks == LANES + 3)  # two find work, and the third none
    assert lanes.busy == 2
    time.sleep(0.05)
    assert lanes.looks == LANES + 3
    assert reported == [0]


def test_lanes_that_wait_look_once_an_interval_all_together() -> None:
    reported: list[int] = []
    wakeup = Wakeup(LANES, reported.append)
    started = time.monotonic()
    lanes = Lanes(wakeup, interval_s=0.05)

    until(lambda: lanes.looks >= LANES + 10)

    assert time.monotonic() - started >= 9 * 0.05
    lanes.work = LANES
    until(lambda: lanes.busy == LANES)  # found without a wake-up


def test_a_wake_up_while_a_lane_looks_for_work_is_not_lost() -> None:
    wakeup = Wakeup()
    wakeup.begin_look()
    wakeup.wake()  # while the lane is leasing

    started = time.monotonic()
    wakeup.wait(LONG_S)

    assert time.monotonic() - started < LONG_S / 2


def test_work_that_is_found_while_another_lane_looks_makes_that_look_again() -> None:
    """It may have looked before a second shard was there."""
    wakeup = Wakeup(2)
    wakeup.begin_look()
    wakeup.wake()
    wakeup.begin_look()  # the other lane
    wakeup.found_work()

    started = time.monotonic()
    wakeup.wait(LONG_S)

    assert time.monotonic() - started < LONG_S / 2


def test_a_lane_that_ends_its_work_needs_no_look_more_than_its_own() -> None:
    wakeup = Wakeup(2)
    wakeup.begin_look()
    wakeup.found_work()  # nobody waits
    wakeup.begin_look()
    first = waiting(wakeup)
    time.sleep(0.05)
    assert first.is_alive()
    wakeup.close()


def test_idle_is_reported_when_all_lanes_wait() -> None:
    reported: list[int] = []
    wakeup = Wakeup(2, reported.append)
    first = waiting(wakeup)
    time.sleep(0.02)
    assert reported == []
    second = waiting(wakeup)
    until(lambda: reported == [0])

    wakeup.wake(3)
    until(lambda: not (first.is_alive() and second.is_alive()))
    time.sleep(0.02)
    assert reported == [0]  # the lane that is awake has not looked yet
    wakeup.begin_look()
    waiting(wakeup)
    until(lambda: reported == [0, 3])


def test_a_lane_that_missed_a_wake_up_does_not_count_as_idle() -> None:
    reported: list[int] = []
    wakeup = Wakeup(1, reported.append)
    wakeup.wake()
    wakeup.wait(LONG_S)  # returns at once, because of the missed wake-up

    assert reported == []


def test_idle_is_reported_once_even_if_lanes_look_for_work_again() -> None:
    reported: list[int] = []
    wakeup = Wakeup(1, reported.append)

    for _ in range(3):
        wakeup.begin_look()
        wakeup.wait(0.001)

    assert reported == [0]


def test_a_recall_ends_every_wait_once() -> None:
    wakeup = Wakeup(2)
    lanes = [waiting(wakeup), waiting(wakeup)]
    until(lambda: wakeup._waiting == 2)

    wakeup.recall()

    for lane in lanes:
        lane.join(LONG_S / 2)
    assert not any(lane.is_alive() for lane in lanes)
    again = waiting(wakeup)
    time.sleep(0.02)
    assert again.is_alive()
    wakeup.close()


def test_after_close_no_lane_waits() -> None:
    wakeup = Wakeup()
    lane = waiting(wakeup)

    wakeup.close()

    lane.join(LONG_S / 2)
    assert not lane.is_alive()
    started = time.monotonic()
    wakeup.wait(LONG_S)
    wakeup.sleep(LONG_S)
    assert time.monotonic() - started < LONG_S / 2
