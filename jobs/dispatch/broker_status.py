"""The state of the broker, reachable or not: each change is reported once."""

import threading
from collections.abc import Callable


class BrokerStatus:
    """Shared by threads. `say` is called with a sentence for the user."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._is_there = True

    def lost(self, reason: str) -> None:
        """Note that the broker does not answer, and report it if that is new."""
        with self._lock:
            if self._is_there:
                self._is_there = False
                self._say(f"{reason}; work goes on, new jobs are found within seconds")

    def back(self) -> None:
        """Note that the broker answers, and report it if that is new."""
        with self._lock:
            if not self._is_there:
                self._is_there = True
                self._say("the broker is back")
