"""A thread of the parent that frees the shards of dead workers: a database that is unreachable must not block it."""

import threading
import time

from jobs.dispatch.database_outage import DatabaseOutage
from jobs.dispatch.reaper import reap
from jobs.errors import StoreError
from jobs.store.database import Database
from jobs.store.singleton_roles import new_holder
from worker.process.frozen_writer import FrozenWriter

REAP_EVERY_S = 5.0
RECONNECT_S = 20.0  # longer than a live worker takes to reconnect


class ReaperThread:
    """Frees shards every few seconds, and soon after a child of this worker has ended."""

    def __init__(self, database: Database, lease_s: float) -> None:
        self.num_freed = 0  # shards so far
        self._database = database
        self._lease_s = lease_s
        self._holder = new_holder()
        self._due = threading.Event()
        self._ended: set[int] = set()  # workers that were children of this process; their shards may not be free yet
        self._outage = DatabaseOutage()
        self._frozen_writer = FrozenWriter(database, lease_s)
        self._answers_since: float | None = float("-inf")  # None: the database does not answer

    def start(self, stop: threading.Event) -> None:
        """Reap every few seconds until `stop` is set."""
        threading.Thread(target=self._run, args=(stop,), daemon=True).start()

    def reap_soon(self, ended: int | None) -> None:
        """Reap at once: a child of this process has ended, which was the worker of this id."""
        if ended is not None:
            self._ended.add(ended)
        self._due.set()

    def reap(self) -> None:
        """Reap once. After an outage of the database the leases of live workers have run out too: these get
        `RECONNECT_S` (but no more than a lease lasts) to prolong them."""
        ended = frozenset(self._ended)
        grace_s = min(RECONNECT_S, self._lease_s)
        try:
            is_long_back = self._answers_since is not None and time.monotonic() - self._answers_since >= grace_s
            self.num_freed += reap(self._database, self._holder, ended=ended, silent_too=is_long_back)
            if self._answers_since is None:
                self._answers_since = time.monotonic()
            self._ended.difference_update(ended)
            self._outage.over()
        except StoreError as error:  # of any kind: the next round may succeed, and the worker goes on meanwhile
            self._answers_since = None
            self._outage.met(error)

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._due.wait(REAP_EVERY_S)
            self._due.clear()
            self.reap()
            self._frozen_writer.look()
