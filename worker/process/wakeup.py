"""What wakes the waiting lanes, and reports when all of them wait. Does not know: where a wake-up comes from."""

import threading
from collections.abc import Callable


def _report_nothing(_count: int) -> None:
    pass


class Wakeup:
    """A counter of wake-ups that the lanes share. None is lost: a lane notes the count before it looks for work, and
    its `wait` returns at once where the count has grown since."""

    def __init__(self, lanes: int = 1, on_idle: Callable[[int], None] = _report_nothing) -> None:
        """`on_idle` gets the count whenever all lanes have looked for work since the last wake-up and wait."""
        self._lanes = lanes
        self._on_idle = on_idle
        self._changed = threading.Condition()
        self._count = 0
        self._waiting = 0  # lanes that have looked for work since the last wake-up
        self._reported = -1
        self._is_closed = False

    @property
    def count(self) -> int:
        """Wake-ups so far: to be read before looking for work."""
        return self._count

    def wake(self, times: int = 1) -> None:
        """Wake all lanes that wait."""
        with self._changed:
            self._count += times
            self._waiting = 0
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

    def wait(self, seconds: float, seen: int) -> None:
        """Wait for the next wake-up after the count `seen`, at most so many seconds."""
        with self._changed:
            if seen == self._count:
                self._waiting += 1
                if self._waiting == self._lanes and self._reported != seen:
                    self._reported = seen
                    self._on_idle(seen)
            self._changed.wait_for(lambda: self._is_closed or self._count != seen, seconds)
            if seen == self._count:
                self._waiting -= 1
