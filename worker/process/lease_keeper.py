"""What the lanes of one process have to know while they work: is it time to stop, is a lease lost or unwanted.

A thread of its own keeps the leases alive, over a connection of its own, however long a model call takes.
"""

import threading
import time
from collections.abc import Callable

from jobs.dispatch.outage import Outage
from jobs.errors import StoreError
from jobs.store.database import Database
from jobs.store.leases import heartbeat
from jobs.store.work import Work
from jobs.store.worker_registry import Warmth, beat
from worker.process.wakeup import Wakeup
from worker.process.watchdog import Watchdog
from worker.process.work_log import WorkLog

# SIGTERM promises an exit within 30 s; what is left of them is for giving shards back.
PATIENCE_S = 22.0


class LeaseKeeper:
    """One worker process from its start to its end. Threads share it."""

    def __init__(
        self,
        database: Database,
        worker_id: int,
        *,
        lease_s: float,
        heartbeat_s: float,
        hang_s: float = 120.0,
        bell: Wakeup | None = None,
        enter: Callable[[], int] | None = None,
    ) -> None:
        self.worker_id = worker_id
        self.lease_s = lease_s
        self.bell = bell or Wakeup()
        self.watch = Watchdog(hang_s, lease_s, hang_up=lambda: database.cut_connections(lease_s))
        self.outage = Outage()  # of the database, for all lanes
        self.journal = WorkLog(database)
        self._enter = enter  # among the workers, where the database does not know us any more; our number
        self._database = database
        self._heartbeat_s = heartbeat_s
        self._lock = threading.Lock()
        # By the token of the lease: a lane may lease the shard that another lane has lost and does not know of.
        self._open: dict[str, Work] = {}  # what lanes hold
        self._lost: set[str] = set()
        self._unwanted: frozenset[str] = frozenset()
        self._stopping = threading.Event()
        self._patience_ends = float("inf")
        self._over = threading.Event()
        self.heard_at = time.monotonic()  # when the database last took a sign of life

    def begin(self, work: Work) -> None:
        """A lane has leased a shard."""
        with self._lock:
            self._open[work.token] = work

    def end(self, work: Work) -> None:
        """A lane has finished a shard, given it back, or lost it."""
        with self._lock:
            self._open.pop(work.token, None)
            self._lost.discard(work.token)

    def is_stopping(self) -> bool:
        """Whether to lease no more."""
        return self._stopping.is_set()

    def should_release(self, work: Work) -> bool:
        """Whether to give the shard back after the batch in hand: the shift stops, or nobody wants the job now."""
        return self.is_stopping() or work.token in self._unwanted

    def must_stop(self, work: Work) -> bool:
        """Whether to drop the batch in hand: another worker has the shard by now, or patience is over."""
        return work.token in self._lost or time.monotonic() > self._patience_ends

    def stop(self) -> None:
        """Lease no more; finish the batch in hand if it does not take too long."""
        self._patience_ends = min(self._patience_ends, time.monotonic() + PATIENCE_S)
        self._stopping.set()
        self.bell.close()

    def wake(self, times: int = 1) -> None:
        """There may be work: every lane that rests looks at once."""
        self.bell.ring(times)

    def keep_alive(self, warmth: Callable[[], Warmth]) -> None:
        """The heartbeat, until `close`."""
        pause_s = self._heartbeat_s
        while not self._over.wait(pause_s):
            try:
                self.pulse(warmth())
                self.heard_at = time.monotonic()
                pause_s = self._heartbeat_s
                self.outage.over()
            except StoreError as error:
                self.outage.met(error)
                pause_s = min(1.0, self._heartbeat_s)
            self.watch.heard_heartbeat()

    def close(self) -> None:
        """End the heartbeat and the watch."""
        self._over.set()
        self.watch.close()

    def pulse(self, warmth: Warmth) -> None:
        """One heartbeat: prolong the leases, learn which are lost or unwanted, and say what is warm."""
        with self._lock:
            before = dict(self._open)  # a lease taken after this line may be missing from the answer
        held = heartbeat(self._database, self.lease_s, before.values())
        with self._lock:
            self._lost |= (before.keys() - held.tokens) & self._open.keys()
            self._unwanted = held.to_release
        if not self._over.is_set():  # else the worker has retired, or is about to
            is_known = beat(self._database, self.worker_id, warmth)
            if not is_known and self._enter is not None:  # it was restored from a copy, from before we came
                self.worker_id = self._enter()
