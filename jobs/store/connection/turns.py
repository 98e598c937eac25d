"""Turns: who asks first comes first."""

import threading
from collections import deque


class Turns:
    """A lock that goes to whoever has waited longest. (Python's own goes to whoever asks in the right moment: a thread
    that takes it again and again may keep it from the others.)"""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    def take(self, timeout_s: float) -> bool:
        """Wait for our turn; whether it came in time."""
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            ours = threading.Event()
            self._waiting.append(ours)
        try:
            came = ours.wait(timeout_s)
        except BaseException:  # a signal's
            self._give_up(ours)
            raise
        return came or not self._withdraw(ours)

    def give(self) -> None:
        """To the next."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken = False

    def _withdraw(self, ours: threading.Event) -> bool:
        """Wait no more; False where our turn came in the same moment."""
        with self._guard:
            if ours.is_set():
                return False
            self._waiting.remove(ours)
            return True

    def _give_up(self, ours: threading.Event) -> None:
        if not self._withdraw(ours):
            self.give()
