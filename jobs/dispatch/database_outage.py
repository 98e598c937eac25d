"""An outage of the database in a worker's log: a line at once, then one per minute, and one at its end."""

import logging
import threading
import time

from jobs.errors import StoreError

log = logging.getLogger(__name__)

SAY_EVERY_S = 60.0


class DatabaseOutage:
    """Shared by threads: an outage is over when every thread that met it has been answered again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unanswered: set[int] = set()
        self._said_at = float("-inf")

    def met(self, error: StoreError) -> None:
        """Note that this thread got an error and will try again."""
        with self._lock:
            self._unanswered.add(threading.get_ident())
            if time.monotonic() - self._said_at > SAY_EVERY_S:
                self._said_at = time.monotonic()
                log.warning("waiting for the database: %s", error)

    def over(self) -> None:
        """Note that the database has answered this thread."""
        if not self._unanswered:  # nearly always
            return
        with self._lock:
            self._unanswered.discard(threading.get_ident())
            if not self._unanswered:
                self._said_at = float("-inf")
                log.warning("the database answers again")
