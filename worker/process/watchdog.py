"""The watch of a worker process: a lane that makes no step for too long, or a heartbeat that fell silent, ends it.

A process that hangs keeps its leases alive for ever; one that is gone is replaced, and what it had in hand becomes
suspect. Time is counted in the ticks of the watch's own thread, so a process that was stopped (SIGSTOP) or whose
machine slept is not taken for one that hangs. Does not know: what a lane computes.
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
LAST_WORDS_S = 5.0  # for log line and traceback; whoever reads our standard error may hang as well
USUAL_STEPS = 1_000  # remembered
TIMES_USUAL = 20  # longer than the usual step: a hang


class Watchdog:
    """Of one process: its lanes and its heartbeat. Threads share it."""

    def __init__(
        self,
        hang_s: float,
        lease_s: float,
        give_up: Callable[[str], None] | None = None,
        hang_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """`hang_up` lets every thread have an error for an answer that waits too long for the database; whether one
        did."""
        self.now = 0.0  # seconds of ticks: a step is far shorter than a tick, and mostly lasts 0
        self._hang_s = hang_s
        self._lease_s = lease_s
        self._hang_up = hang_up
        self._give_up = _end_process if give_up is None else give_up
        # Fine enough that one tick, times `TIMES_USUAL`, is no deadline of its own.
        self._interval_s = min(1.0, hang_s / (2 * TIMES_USUAL))
        self._lock = threading.Lock()
        self._calls: set[WatchedCall] = set()
        self._steps: deque[float] = deque(maxlen=USUAL_STEPS)
        self._heartbeat_at = 0.0
        self._over = threading.Event()

    @contextlib.contextmanager
    def watching(self, what: str) -> Iterator["WatchedCall"]:
        """Watch a call into an engine; `what` is for the log if it hangs. The caller says `step` as it gets on."""
        call = WatchedCall(self, what)
        with self._lock:
            self._calls.add(call)
        try:
            yield call
        finally:
            with self._lock:
                self._calls.discard(call)

    def deadline_s(self) -> float:
        """How long a lane may be silent: the setting, or 20 times the p99 of the steps of this process."""
        with self._lock:
            steps = sorted(self._steps)
        usual = steps[int(0.99 * len(steps))] if steps else 0.0
        return max(self._hang_s, TIMES_USUAL * usual)

    def took(self, seconds: float) -> None:
        """A step of some lane is over."""
        with self._lock:
            self._steps.append(seconds)

    def is_stuck(self) -> bool:
        """Whether a lane has been silent for so long that the next tick ends the process."""
        deadline_s = self.deadline_s()
        with self._lock:
            return any(call.silent_s > deadline_s for call in self._calls)

    def heard_heartbeat(self) -> None:
        """The heartbeat had an answer, a good one or an error."""
        self._heartbeat_at = self.now

    def run(self) -> None:
        """Watch until `close`."""
        self._arm()
        before = time.monotonic()
        while not self._over.wait(self._interval_s):
            after = time.monotonic()
            self.tick(min(after - before, 2 * self._interval_s))
            before = after
        faulthandler.cancel_dump_traceback_later()

    def close(self) -> None:
        """End the watch."""
        self._over.set()

    def tick(self, seconds: float) -> None:
        """So much time has passed in which this process could have worked."""
        self.now += seconds
        deadline_s = self.deadline_s()
        with self._lock:
            calls = tuple(self._calls)
        for call in calls:
            if call.silent_s > deadline_s:
                self._give_up(f"no step for {call.silent_s:.0f} s in {call.what}")
        if self._hang_up():
            log.warning("no answer from the database for as long as a lease lasts; connecting anew")
        silent_s = self.now - self._heartbeat_at
        if silent_s > max(self._hang_s, 2 * self._lease_s):
            self._give_up(f"no answer to the heartbeat for {silent_s:.0f} s (a connection that is dead on one side?)")
        self._arm()

    def _arm(self) -> None:
        """A thread of C code ends the process if no further tick comes: some extension keeps the interpreter's lock.

        Always, and not only during a call: a call may take the lock before the next tick. (onnxruntime gives it back
        while it loads a model.) The C code counts time in which the process was stopped, and fires at SIGCONT. Three
        leases long, it lets whoever slept past its lease come back and learn so.
        """
        faulthandler.dump_traceback_later(max(self.deadline_s(), 3 * self._lease_s), exit=True)


class WatchedCall:
    """One call into an engine, and when it last got on."""

    def __init__(self, watch: Watchdog, what: str) -> None:
        self.what = what
        self._watch = watch
        self._last: float | None = watch.now  # None: it waits for something that is not watched

    @property
    def silent_s(self) -> float:
        last = self._last  # another thread may change it
        return 0.0 if last is None else self._watch.now - last

    def step(self) -> None:
        """A sign of life."""
        self._watch.took(self.silent_s)
        self._last = self._watch.now

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """For the database, say: it has time limits of its own."""
        self._last = None
        try:
            yield
        finally:
            self._last = self._watch.now


def _end_process(reason: str) -> None:
    """Say what every thread does, and go at once: whatever hangs would not hear a polite request."""
    signal.setitimer(signal.ITIMER_REAL, LAST_WORDS_S)  # SIGALRM ends the process
    log.error("the worker process hangs and ends: %s", reason)
    faulthandler.dump_traceback(all_threads=True)
    sys.stderr.flush()
    os._exit(EXIT_HUNG)
