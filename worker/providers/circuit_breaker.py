"""
The circuit breaker of one provider, its model and a task: a dead provider is not asked for every batch, but from time
to time.

    closed     it is asked                                        a failure opens the breaker
    open       it is not asked, for 5 s and then twice as long each time, up to 5 minutes
    half open  one lane asks it for one document: an answer closes the breaker, a failure opens it for longer

(M. Nygard, Release It!, 2007.) Shared by the lanes of a process; each process learns by itself.
"""

import threading
import time
from collections.abc import Callable, Collection

from jobs.answers import Unanswered
from jobs.providers import Reason

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 300.0


class CircuitBreaker:
    """Closed at first. All methods may be called from any lane."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._why: Unanswered | None = None  # None: closed
        self._pause_s = FIRST_PAUSE_S
        self._ask_at = 0.0
        self._is_probing = False

    def why_open(self) -> Unanswered | None:
        """The failure for which the provider is not to be asked now; None: ask it.

        Of an open breaker whose pause is over, one caller gets None, and must ask; the others wait for what it finds,
        or for another pause.
        """
        with self._lock:
            if self._why is None:
                return None
            if self._clock() < self._ask_at:
                return self._why
            self._ask_at = self._clock() + self._pause_s
            self._is_probing = True
            return None

    @property
    def is_closed(self) -> bool:
        """Whether the provider answered when it was asked last."""
        with self._lock:
            return self._why is None

    def is_pausing_for(self, reasons: Collection[Reason]) -> bool:
        """Whether `why_open` would refuse now, for a failure of one of these codes."""
        with self._lock:
            return self._why is not None and self._why.code in reasons and self._clock() < self._ask_at

    def failed(self, why: Unanswered) -> None:
        """Open; after a probe, for longer. Of several lanes that the same failure hits, the first opens it."""
        with self._lock:
            if self._why is not None and not self._is_probing:
                return
            self._pause_s = FIRST_PAUSE_S if self._why is None else min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._why = why
            self._ask_at = self._clock() + self._pause_s
            self._is_probing = False

    def answered(self) -> None:
        """Close."""
        with self._lock:
            self._why = None
            self._is_probing = False
