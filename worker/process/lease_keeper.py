"""The leases that the lanes of one process hold: kept alive, and whether a lane is to stop or to give its shard back.

The heartbeat runs in a thread of its own, over a connection of its own, however long a model call takes.
"""

import threading
import time
from collections.abc import Callable

from jobs.dispatch.database_outage import DatabaseOutage
from jobs.errors import StoreError
from jobs.store import worker_registry
from jobs.store.database import Database
from jobs.store.queue.work import Work
from jobs.store.schema.states import WorkerRequest
from jobs.store.worker_registry import WorkerStats
from worker.process.frozen_writer import FrozenWriter
from worker.process.wakeup import Wakeup
from worker.process.watchdog import Watchdog
from worker.process.work_log import WorkLog

# After the request to stop, how long a batch may go on. SIGTERM promises an exit within 30 s; the rest is for giving
# shards back.
FINISH_BATCH_S = 22.0


class LeaseKeeper:
    """The leases of one worker process, from its start to its end. Threads share this object."""

    def __init__(
        self,
        database: Database,
        worker_id: int,
        *,
        lease_s: float,
        heartbeat_s: float,
        hang_s: float = 120.0,
        wakeup: Wakeup | None = None,
        register: Callable[[], int] | None = None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        """`register`: enters this process again into a database that has lost it, and returns the new id."""
        self.worker_id = worker_id
        self.lease_s = lease_s
        self.wakeup = wakeup or Wakeup()
        self.watchdog = Watchdog(
            hang_s, lease_s, cut_connections=lambda: database.cut_connections(lease_s), on_tick=on_tick
        )
        self.outage = DatabaseOutage()  # of the database, for all lanes
        self.work_log = WorkLog(database)
        self.answered_at = time.monotonic()  # when the database last answered a heartbeat
        self._frozen_writer = FrozenWriter(database, lease_s)
        self._register = register
        self._database = database
        self._heartbeat_s = heartbeat_s
        self._lock = threading.Lock()
        # By the token of the lease: a lane may lease the shard that another lane has lost without knowing it yet.
        self._held: dict[str, Work] = {}
        self._lost: set[str] = set()
        self._to_release: frozenset[str] = frozenset()
        self._request = WorkerRequest.WORK
        self._stopping = threading.Event()
        self._finish_by = float("inf")
        self._closed = threading.Event()

    def keep(self, work: Work) -> None:
        """Keep the lease of a shard alive, which a lane has just leased."""
        with self._lock:
            self._held[work.token] = work

    def let_go(self, work: Work) -> None:
        """Keep the lease no longer: the lane has finished the shard, given it back, or lost it."""
        with self._lock:
            self._held.pop(work.token, None)
            self._lost.discard(work.token)

    def is_stopping(self) -> bool:
        """Whether to lease no more shards."""
        return self._stopping.is_set()

    def takes_work(self) -> bool:
        """Whether to lease more shards: it neither stops, nor was it asked to pause or to drain."""
        return self._request is WorkerRequest.WORK and not self.is_stopping()

    def is_draining(self) -> bool:
        """Whether the process is to end when the shards in hand are finished."""
        return self._request is WorkerRequest.DRAIN

    def should_release(self, work: Work) -> bool:
        """Whether to give the shard back after the current batch: the worker stops or is paused, or the job was paused
        or cancelled."""
        return self.is_stopping() or self._request is WorkerRequest.PAUSE or work.token in self._to_release

    def must_stop(self, work: Work) -> bool:
        """Whether to drop the current batch: the lease is lost to another worker, or the time to finish is over."""
        return work.token in self._lost or time.monotonic() > self._finish_by

    def stop(self) -> None:
        """Lease no more shards; finish the current batches if they take no longer than `FINISH_BATCH_S`."""
        self._finish_by = min(self._finish_by, time.monotonic() + FINISH_BATCH_S)
        self._stopping.set()
        self.wakeup.close()

    def keep_alive(self, stats: Callable[[], WorkerStats]) -> None:
        """Send heartbeats until `close`."""
        pause_s = self._heartbeat_s
        while not self._closed.wait(pause_s):
            try:
                self.record_heartbeat(stats())
                self.answered_at = time.monotonic()
                pause_s = self._heartbeat_s
                self.outage.over()
            except StoreError as error:
                self.outage.met(error)
                self._frozen_writer.look()
                pause_s = min(1.0, self._heartbeat_s)
            self.watchdog.heard_heartbeat()

    def close(self) -> None:
        """End the heartbeat and the watchdog."""
        self._closed.set()
        self.watchdog.close()

    def record_heartbeat(self, stats: WorkerStats) -> None:
        """One heartbeat: prolong the leases, learn which are lost or to be released, and report the worker's stats."""
        if self._closed.is_set():  # the worker has retired, or is about to
            return
        with self._lock:
            before = dict(self._held)  # a shard leased after this line may be missing from the answer
        held, request = worker_registry.record_heartbeat(
            self._database, self.worker_id, stats, self.lease_s, before.values()
        )
        with self._lock:
            self._lost |= (before.keys() - held.tokens) & self._held.keys()
            self._to_release = held.to_release
        if request is None and self._register is not None:  # the database was restored from an older backup
            self.worker_id = self._register()
        asked, self._request = self._request, request or WorkerRequest.WORK
        if self._request is not asked:
            self.wakeup.recall()  # lanes that wait learn it at once
