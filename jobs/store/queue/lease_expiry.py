"""Taking back the leases of workers that died or fell silent. A job under which too many die is paused."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from jobs.store.database import Database
from jobs.store.queue.circuit_breaker import pause_after_deaths
from jobs.store.queue.completion import close_cancelled
from jobs.store.queue.job_counters import lock_counters
from jobs.store.queue.pauses import Trial, how_to_try, paused_values
from jobs.store.queue.shard_events import log_event
from jobs.store.queue.work import ready_values
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Job, Shard

# Leases in a row that ended in the death of their process, until the job is paused: the sandbox did not help.
MAX_CRASHES = 8


def expire(database: Database, trial: Trial | None = None) -> int:
    """Take back the leases that have run out; how many. The event keeps the positions that were in flight. `trial`: for
    the reason of a job that is paused."""
    return _take_back(database, Shard.lease_until < db_time(), "expired", trial)


def expire_workers(database: Database, worker_ids: Sequence[int], trial: Trial | None = None) -> int:
    """Take back the leases of workers that are known to be dead; how many."""
    return _take_back(database, Shard.lease_owner.in_(worker_ids), "lost", trial) if worker_ids else 0


def _take_back(database: Database, which: Any, why: str, trial: Trial | None) -> int:
    with database.reading() as connection:
        if connection.execute(select(Shard.id).where(Shard.state == ShardState.LEASED, which).limit(1)).first() is None:
            return 0
    with database.writing() as connection:
        dead = connection.execute(
            select(Shard.id, Shard.job_id, Shard.in_flight, Shard.lease_owner, Shard.lease_epoch)
            .where(Shard.state == ShardState.LEASED, which)
            .order_by(Shard.job_id, Shard.id)
            .with_for_update(skip_locked=True)
        ).all()
        for shard in dead:
            lock_counters(connection, shard.job_id)
            crashes = connection.execute(
                update(Shard)
                .where(Shard.id == shard.id)
                .values(ready_values() | {"lease_epoch": Shard.lease_epoch + 1, "crashes": Shard.crashes + 1})
                .returning(Shard.crashes)
            ).scalar_one()
            in_flight = json.loads(shard.in_flight or "[]")
            lease = (shard.lease_epoch, shard.lease_owner)
            log_event(connection, shard.job_id, shard.id, why, *lease, len(in_flight), shard.in_flight)
            close_cancelled(connection, shard.job_id, [shard.id])
            if crashes >= MAX_CRASHES:
                _pause_for_crashes(connection, shard.job_id, shard.id, in_flight, trial)
        for job_id in {shard.job_id for shard in dead}:
            pause_after_deaths(connection, job_id)
        return len(dead)


def _pause_for_crashes(
    connection: Connection, job_id: int, shard_id: int, in_flight: list[int], trial: Trial | None
) -> None:
    """Pause the job of a shard whose processes died too often in a row: the model kills them, not a document."""
    columns = (Job.task, Job.model, Job.model_revision, Job.options, Job.providers, Job.source, Job.reading)
    more = (Job.priority, Job.queue, Job.reads)
    job = connection.execute(select(*columns, *more).where(Job.id == job_id)).mappings().one()
    where = f"documents {in_flight[0]} to {in_flight[-1]}" if in_flight else "no document"
    advice = how_to_try(job_id, dict(job), in_flight, trial)
    reason = f"{MAX_CRASHES} workers in a row died on shard {shard_id} with {where} in flight; {advice}"
    connection.execute(update(Job).where(Job.id == job_id).values(paused_values(reason)))
    connection.execute(update(Shard).where(Shard.id == shard_id).values(crashes=0))
