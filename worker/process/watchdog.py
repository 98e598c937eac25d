"""Ends a worker process that hangs: a lane takes no step for too long, or the heartbeat has no answer.

A process that hangs would keep its leases alive for ever; one that has ended is replaced, and the batches that it was
processing become suspect. Time is counted in the ticks of the watchdog's own thread, so a process that was stopped
(SIGSTOP) or whose machine slept does not count as hung. Does not know: what a lane computes.
"""

import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

EXIT_HUNG = 70  # EX_SOFTWARE, sysexits.h
TRACEBACK_S = 5.0  # for log line and traceback: the reader of standard error may hang as well
REMEMBERED_STEPS = 1_000
TIMES_USUAL = 20  # a step that takes this many times as long as usual hangs


class Watchdog:
    """Watches the lanes and the heartbeat of one process. Threads share it."""

    def __init__(
        self,
        hang_s: float,
        lease_s: float,
        on_hang: Callable[[str], None] | None = None,
        cut_connections: Callable[[], bool] = lambda: False,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_hang` gets the reason; by default it ends the process. `cut_connections` closes the connections that
        have waited too long for the database, so that their threads get an error; whether there was one. `on_tick`
        tells others that this process runs."""
        self.now = 0.0  # seconds, counted in ticks: most steps are far shorter than a tick and count as 0
        self._hang_s = hang_s
        self._lease_s = lease_s
        self._cut_connections = cut_connections
        self._on_tick = on_tick
        self._on_hang = _end_process if on_hang is None else on_hang
        # So short that a step of one tick, times `TIMES_USUAL`, does not raise the deadline above `hang_s`.
        self._interval_s = min(1.0, hang_s / (2 * TIMES_USUAL))
        self._lock = threading.Lock()
        self._calls: set[WatchedCalls] = set()
        self._steps: deque[float] = deque(maxlen=REMEMBERED_STEPS)
        self._heartbeat_at = 0.0
        self._closed = threading.Event()

    def add(self, calls: "WatchedCalls") -> None:
        """Watch the calls of a lane."""
        with self._lock:
            self._calls.add(calls)

    def discard(self, calls: "WatchedCalls") -> None:
        """Watch the calls of a lane no longer."""
        with self._lock:
            self._calls.discard(calls)

    def deadline_s(self) -> float:
        """Longest time without a step: the setting `hang_s`, or 20 times the p99 of this process's steps if longer."""
        with self._lock:
            steps = sorted(self._steps)
        usual = steps[int(0.99 * len(steps))] if steps else 0.0
        return max(self._hang_s, TIMES_USUAL * usual)

    def record_step(self, seconds: float) -> None:
        """Note how many seconds a finished step of a lane took."""
        with self._lock:
            self._steps.append(seconds)

    def is_stuck(self) -> bool:
        """Whether a lane is past its deadline, so that the next tick ends the process."""
        deadline_s = self.deadline_s()
        with self._lock:
            return any(call.silent_s > deadline_s for call in self._calls)

    def heard_heartbeat(self) -> None:
        """Note that the database answered the heartbeat, be it with an error."""
        self._heartbeat_at = self.now

    def run(self) -> None:
        """Tick until `close`."""
        self._arm()
        before = time.monotonic()
        while not self._closed.wait(self._interval_s):
            after = time.monotonic()
            self.tick(min(after - before, 2 * self._interval_s))
            before = after
        faulthandler.cancel_dump_traceback_later()

    def close(self) -> None:
        """End `run`."""
        self._closed.set()

    def tick(self, seconds: float) -> None:
        """Count `seconds` in which this process was able to run, and act on every deadline that has passed."""
        self.now += seconds
        self._on_tick()
        deadline_s = self.deadline_s()
        with self._lock:
            calls = tuple(self._calls)
        for call in calls:
            if call.silent_s > deadline_s:
                self._on_hang(f"no step for {call.silent_s:.0f} s in {call.what}")
        if self._cut_connections():
            log.warning("no answer from the database for the length of a lease; connecting anew")
        silent_s = self.now - self._heartbeat_at
        if silent_s > max(self._hang_s, 2 * self._lease_s):
            self._on_hang(f"no answer to the heartbeat for {silent_s:.0f} s (a half-open connection?)")
        self._arm()

    def _arm(self) -> None:
        """Have a C thread end the process if no further tick comes, because an extension holds the interpreter's lock.

        Armed all the time and not only during a call, which may take the lock before the next tick. (onnxruntime
        releases it while it loads a model.) The C thread also counts time in which the process was stopped, and fires
        at SIGCONT; three leases are long enough for a process that slept past its lease to run on and learn that the
        lease is lost.
        """
        faulthandler.dump_traceback_later(max(self.deadline_s(), 3 * self._lease_s), exit=True)


class WatchedCalls:
    """The calls of one lane into engines, one after another, and when the present one last took a step."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.what = ""  # describes the present call, for the log
        self._watchdog = watchdog
        self._last: float | None = None  # None: not watched at present

    @contextlib.contextmanager
    def watching(self, what: str) -> Iterator[None]:
        """Watch a call; the log says `what` if it hangs. The engine calls `step` after each step."""
        self.what, self._last = what, self._watchdog.now
        self._watchdog.add(self)
        try:
            yield
        finally:
            self._watchdog.discard(self)
            self._last = None

    @property
    def silent_s(self) -> float:
        """Seconds since the last step; 0 while the call is not watched."""
        last = self._last  # another thread may change it
        return 0.0 if last is None else self._watchdog.now - last

    def step(self) -> None:
        """Note that the call has made progress."""
        self._watchdog.record_step(self.silent_s)
        self._last = self._watchdog.now

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Do not watch the call within this context: it waits for the database, which has time limits of its own."""
        self._last = None
        try:
            yield
        finally:
            self._last = self._watchdog.now


def _end_process(reason: str) -> None:
    """Print every thread's traceback and exit at once: a thread that hangs would not react to a request to stop."""
    signal.setitimer(signal.ITIMER_REAL, TRACEBACK_S)  # SIGALRM ends the process
    log.error("the worker process hangs and ends: %s", reason)
    faulthandler.dump_traceback(all_threads=True)
    sys.stderr.flush()
    os._exit(EXIT_HUNG)
