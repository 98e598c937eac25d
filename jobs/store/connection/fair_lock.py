"""A lock that threads acquire in the order in which they asked for it."""

import threading
from collections import deque


class FairLock:
    """First come, first served. `threading.Lock` has no order: a thread that releases it and acquires it again, over
    and over, can starve the others."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Event] = deque()

    def acquire(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` for the lock. Returns whether this thread has it now."""
        with self._guard:
            if not self._is_held:
                self._is_held = True
                return True
            ours = threading.Event()
            self._waiting.append(ours)
        try:
            is_ours = ours.wait(timeout_s)
        except BaseException:  # raised by a signal handler
            self._leave_queue_or_release(ours)
            raise
        return is_ours or not self._leave_queue(ours)

    def release(self) -> None:
        """Hand the lock to the thread that has waited longest."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_held = False

    def _leave_queue(self, ours: threading.Event) -> bool:
        """Stop waiting. Returns False if the lock was handed to this thread at the same moment."""
        with self._guard:
            if ours.is_set():
                return False
            self._waiting.remove(ours)
            return True

    def _leave_queue_or_release(self, ours: threading.Event) -> None:
        if not self._leave_queue(ours):
            self.release()
