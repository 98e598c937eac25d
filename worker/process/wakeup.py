"""What wakes the waiting lanes, and reports when all of them wait. Does not know: where a wake-up comes from.

The lanes of a process look for the same work, so one looks for all that wait: once an interval, and at a wake-up. One
that finds some lets the next one look, and so on until one finds none.
"""

import math
import threading
import time
from collections.abc import Callable


def _report_nothing(_count: int) -> None:
    pass


class Wakeup:
    """Reasons to look for work, which the lanes share. None is lost: a lane notes the reasons that there are before it
    looks (`begin_look`), and `wait` returns at once where one came since and no other lane has begun to look."""

    def __init__(self, lanes: int = 1, on_idle: Callable[[int], None] = _report_nothing) -> None:
        """`on_idle` gets the number of wake-ups so far whenever all lanes wait, and one has looked since the last."""
        self._lanes = lanes
        self._on_idle = on_idle
        self._changed = threading.Condition()
        self._count = 0  # wake-ups
        self._reasons = 0  # to look: wake-ups, and work that was found
        self._looked = 0  # reasons that there were when a lane last began to look
        self._look_at = math.inf  # when a lane looks without a reason, by `time.monotonic`
        self._waiting = 0  # lanes
        self._reported = -1
        self._recalls = 0
        self._is_closed = False

    def begin_look(self) -> None:
        """Note that a lane is about to look for work."""
        with self._changed:
            self._looked = self._reasons

    def found_work(self) -> None:
        """Let another lane look, if one waits."""
        with self._changed:
            self._reasons += 1
            self._changed.notify_all()

    def wake(self, times: int = 1) -> None:
        """There may be work: let a lane look that waits."""
        with self._changed:
            self._count += times
            self._reasons += 1
            self._changed.notify_all()

    def recall(self) -> None:
        """End every `wait` now: what the lanes are asked to do has changed."""
        with self._changed:
            self._recalls += 1
            self._changed.notify_all()

    def close(self) -> None:
        """End every `wait` and `sleep`, now and from now on."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def sleep(self, seconds: float) -> None:
        """Wait for the whole time, whether or not a wake-up comes; only `close` ends the wait early."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed, seconds)

    def wait(self, seconds: float) -> None:
        """After a look that found nothing: wait until it is this lane's turn to look for all that wait. That is at a
        reason to look, or `seconds` after the last look of any of them that found nothing."""
        with self._changed:
            self._waiting += 1
            self._look_at = time.monotonic() + seconds
            if self._waiting == self._lanes and not self._is_due() and self._reported != self._count:
                self._reported = self._count
                self._on_idle(self._count)
            recalls = self._recalls
            while not (self._is_closed or self._recalls != recalls or self._is_due()):
                left_s = self._look_at - time.monotonic()
                self._changed.wait(None if left_s == math.inf else max(left_s, 0.0))
            self._waiting -= 1
            if self._is_due():
                self._looked, self._look_at = self._reasons, math.inf  # this lane looks; the others need not

    def _is_due(self) -> bool:
        return self._reasons > self._looked or time.monotonic() >= self._look_at
