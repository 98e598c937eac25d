"""The reaper: takes back the leases of dead workers. Any number may run at once: each step is one fenced
transaction."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from jobs.store.database import Database
from jobs.store.jobs import finish_cancel, interrupted_cancels
from jobs.store.queue.completion import end_if_over, jobs_to_end
from jobs.store.queue.deaths import expire, expire_workers
from jobs.store.queue.waiting import has_expired_lease
from jobs.store.singleton_roles import REAPER, acquire_role
from jobs.store.worker_registry import dead_workers, mark_stopped

log = logging.getLogger(__name__)

ROLE_S = 15.0


def reap(database: Database, holder: str | None = None, *, ended: Collection[int] = (), silent_too: bool = True) -> int:
    """Take back the leases of dead workers and of silent ones; returns their number. Interrupted cancels are finished,
    and jobs end whose last shard was closed by a process that died then.

    Workers whose process on this machine has ended, and those in `ended`, whose end the caller saw, lose their leases
    at once. Leases that ran out (`silent_too`) are taken back by one process of the fleet: with a `holder`, only if it
    has the role. Raises StoreError where the database takes no writes, also if there is nothing to do with
    `silent_too=False`.
    """
    for job_id in interrupted_cancels(database):
        finish_cancel(database, job_id)
    for job_id in jobs_to_end(database):
        end_if_over(database, job_id)
    dead = sorted({*dead_workers(database), *ended})
    freed = expire_workers(database, dead, _trial)
    if (
        silent_too
        and has_expired_lease(database)
        and (holder is None or acquire_role(database, REAPER, holder, ROLE_S))
    ):
        freed += expire(database, _trial)
    if dead or not silent_too:
        mark_stopped(database, dead, killed=True)
    if freed:
        log.warning("shards taken back from workers that died: %d", freed)
    return freed


def _trial(job: Mapping[str, Any], file: str) -> str | None:
    from jobs.submit_command import StoredSubmit, trial_command  # which loads the readers of corpora

    return trial_command(StoredSubmit(**job), file)
