"""Takes back what the dead have left behind. As many may run as like: each step is one fenced transaction."""

import logging
from collections.abc import Collection

from jobs.store.database import Database
from jobs.store.jobs import finish_cancel, interrupted_cancels
from jobs.store.lease_expiry import expire, expire_workers
from jobs.store.singleton_roles import REAPER, acquire_role
from jobs.store.waiting import has_expired_lease
from jobs.store.worker_registry import dead_workers, mark_stopped

log = logging.getLogger(__name__)

ROLE_S = 15.0


def reap(database: Database, holder: str | None = None, *, ended: Collection[int] = (), silent_too: bool = True) -> int:
    """Free the shards of dead workers and of silent ones; how many.

    A process of this machine that is gone is dead for certain, and so are the workers whose processes have `ended`
    under the eyes of the caller: nobody waits for their leases to run out. Silent ones (`silent_too`) are looked after
    by one process of the fleet: with a `holder`, only if it has the role. Without them, StoreError is raised all the
    same where the database takes no writes. A `cancel` that died before it was through is finished.
    """
    for job_id in interrupted_cancels(database):
        finish_cancel(database, job_id)
    dead = sorted({*dead_workers(database), *ended})
    freed = expire_workers(database, dead)
    if (
        silent_too
        and has_expired_lease(database)
        and (holder is None or acquire_role(database, REAPER, holder, ROLE_S))
    ):
        freed += expire(database)
    if dead or not silent_too:
        mark_stopped(database, dead)
    if freed:
        log.warning("shards taken back from workers that died: %d", freed)
    return freed
