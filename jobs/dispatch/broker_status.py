"""Whether the broker is there, told once when it goes and once when it is back."""

import threading
from collections.abc import Callable


class BrokerStatus:
    """Threads share it. `say` gets a sentence for a person."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._is_there = True

    def lost(self, reason: str) -> None:
        """It does not answer."""
        with self._lock:
            if self._is_there:
                self._is_there = False
                self._say(f"{reason}; work goes on, new jobs are found within seconds")

    def back(self) -> None:
        """It answers."""
        with self._lock:
            if not self._is_there:
                self._is_there = True
                self._say("the broker is back")
