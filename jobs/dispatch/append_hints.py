"""Waking workers for documents that are appended to open jobs: at once, and at most a few times a second."""

import logging
import threading
from collections.abc import Callable

from jobs.settings import Settings
from jobs.store.database import Database

log = logging.getLogger(__name__)

EVERY_S = 0.3  # a round asks the database and the broker what is missing


class AppendHints:
    """Sends hints in a thread of its own. Threads may share it; without a broker it does nothing, and workers find the
    documents by themselves (`worker.child_process.OPEN_EVERY_S`)."""

    def __init__(self, send: Callable[[], str | None] | None, every_s: float = EVERY_S) -> None:
        """`send` sends the hints that are missing, and returns what went wrong, if anything; None: there is no
        broker."""
        self._send = send
        self._every_s = every_s
        self._wanted = threading.Event()
        self._closed = threading.Event()
        if send is not None:
            threading.Thread(target=self._run, daemon=True, name="append hints").start()

    @classmethod
    def of(cls, database: Database, settings: Settings) -> "AppendHints":
        """The hints of a database's jobs, through the broker of the settings."""
        return cls(lambda: _send_missing(database, settings)) if settings.broker else cls(None)

    def wake(self) -> None:
        """To be called after an append; returns at once. A round of hints begins after this call."""
        self._wanted.set()

    def close(self) -> None:
        """Send no more hints than those that are wanted already."""
        self._closed.set()
        self._wanted.set()

    def _run(self) -> None:
        assert self._send is not None
        last = None
        while True:
            self._wanted.wait()
            self._wanted.clear()
            problem = self._send()
            if problem and problem != last:
                log.warning("workers could not be notified (%s); they find the documents within seconds", problem)
            last = problem
            if self._closed.wait(self._every_s) and not self._wanted.is_set():
                return


def _send_missing(database: Database, settings: Settings) -> str | None:
    from jobs.dispatch.hints import hint_at_once  # which loads Celery

    return hint_at_once(database, settings)
