"""A worker's process that was stopped while it held the write lock of the SQLite file: where its own parent is stopped
too, another worker of this machine ends it.

Other programs that hold the lock (a submit, another tool) belong to a person: the error names them.
"""

import logging
import os
import signal
import time
from contextlib import suppress

from jobs.errors import StoreError
from jobs.store.connection.lock_holder import lock_holder
from jobs.store.database import Database
from jobs.store.worker_registry import processes_here
from jobs.system.process import ProcessId, is_stopped, parent_of

log = logging.getLogger(__name__)

LEAST_LOOK_S = 10.0  # a reaper looks every 5 s, or after it has waited for the lock


class FrozenWriter:
    """Ends the stopped process after two leases. Of a long time between two looks only a part counts: this process may
    have been suspended meanwhile."""

    def __init__(self, database: Database, lease_s: float) -> None:
        self._database = database
        self._lease_s = lease_s
        self._longest_look_s = max(lease_s, LEAST_LOOK_S)
        self._seen: ProcessId | None = None
        self._frozen_s = 0.0
        self._looked_at = time.monotonic()

    def look(self) -> None:
        """To be called every few seconds, or whenever the database was locked. Does nothing on PostgreSQL, which rolls
        the transaction of a silent client back by itself."""
        now = time.monotonic()
        passed_s, self._looked_at = min(now - self._looked_at, self._longest_look_s), now
        frozen = self._frozen()
        self._frozen_s = self._frozen_s + passed_s if frozen is not None and frozen == self._seen else 0.0
        self._seen = frozen
        if frozen is not None and self._frozen_s > 2 * self._lease_s:
            log.warning("process %d of a worker is stopped and has the database locked; ending it", frozen.pid)
            with suppress(OSError):  # it has ended, or is another user's
                os.kill(frozen.pid, signal.SIGKILL)

    def _frozen(self) -> ProcessId | None:
        """The process that is stopped, holds the lock, and is a worker's child or its parent."""
        holder = None if self._database.file is None else lock_holder(self._database.file)
        if holder is None or not is_stopped(holder):
            return None
        try:
            children = [process for process in processes_here(self._database) if not process.is_dead()]
        except StoreError:
            return None
        pids = {pid for child in children for pid in (child.pid, parent_of(child.pid))}
        return ProcessId.of(holder) if holder in pids else None
