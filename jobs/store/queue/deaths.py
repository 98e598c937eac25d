"""What follows the death of a process: the leases of workers that died or fell silent are taken back, and a job is
paused when its processes die one after the other, as with a bad model (the circuit breaker).

The deaths of sandboxes, disposable processes that retry a suspect batch, are logged before any result; those of workers
where their leases are taken back.
"""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, distinct, func, select, update

from jobs.errors import StaleLease
from jobs.store.database import Database
from jobs.store.queue.batches import Batch
from jobs.store.queue.completion import close_cancelled
from jobs.store.queue.job_counters import lock_counters
from jobs.store.queue.pauses import Trial, how_to_try, how_to_verify, paused_values
from jobs.store.queue.shard_events import log_event
from jobs.store.queue.work import Work, fence, positions_json, ready_values
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import JobState, ShardState
from jobs.store.schema.tables import Job, Shard, ShardEvent

MAX_DEATHS = 20
WITHIN_S = 600.0

# Events of a shard
WORKER_GONE = ("lost", "expired")  # a worker died or fell silent, with its leases
SANDBOX_DIED = "died"  # a disposable process for one suspect batch died
QUARANTINED = "quarantined"


def log_death(database: Database, work: Work, batch: Batch, how: str) -> bool:
    """Log at once, before any result, that a sandbox died while it processed these documents; whether the circuit
    breaker paused the job. `how` is the exit of the process in words. Raises StaleLease where the lease is lost."""
    with database.writing() as connection:
        if connection.execute(select(Shard.id).where(*fence(work)).with_for_update()).first() is None:
            raise StaleLease(f"shard {work.shard_id} of job {work.job_id} was leased again after epoch {work.epoch}")
        lock_counters(connection, work.job_id)
        detail = f"{positions_json(batch)} {how}"
        log_event(connection, work.job_id, work.shard_id, SANDBOX_DIED, work.epoch, work.worker_id, len(batch), detail)
        return pause_after_deaths(connection, work.job_id)


def pause_after_deaths(connection: Connection, job_id: int) -> bool:
    """Pause a job if more than `MAX_DEATHS` of its processes died within ten minutes and fewer documents than that were
    finished; returns whether it was paused. (A person who kills workers again and again lets more documents finish.)"""
    event = ShardEvent
    lately = (event.job_id == job_id, event.at > db_time(-WITHIN_S))
    gone = select(func.count(distinct(event.worker_id))).where(*lately, event.event.in_(WORKER_GONE))
    died = select(func.count()).select_from(event).where(*lately, event.event == SANDBOX_DIED)
    deaths = connection.execute(gone).scalar_one() + connection.execute(died).scalar_one()
    if deaths <= MAX_DEATHS:
        return False
    documents = func.sum(event.documents)
    recorded = connection.execute(select(documents).where(*lately, event.event == "recorded")).scalar_one()
    quarantined = connection.execute(select(documents).where(*lately, event.event == QUARANTINED)).scalar_one()
    done = (recorded or 0) - (quarantined or 0)
    if deaths <= done:
        return False
    is_running = (Job.id == job_id, Job.state == JobState.RUNNING, ~Job.paused)
    model = connection.execute(select(Job.model).where(Job.id == job_id)).scalar_one()
    reason = (
        f"{deaths} worker processes died within {WITHIN_S / 60:.0f} minutes and finished {done} documents; "
        f"{how_to_verify(job_id, model)}"
    )
    paused = connection.execute(update(Job).where(*is_running).values(paused_values(reason)))
    return bool(paused.rowcount)


# Leases in a row that ended in the death of their process, until the job is paused: the sandbox did not help.
MAX_CRASHES = 8


def expire(database: Database, trial: Trial | None = None) -> int:
    """Take back the leases that have run out; returns their number. The event keeps the positions that were in flight.
    `trial`: makes the command that is named in the reason of a job that is paused."""
    return _take_back(database, Shard.lease_until < db_time(), "expired", trial)


def expire_workers(database: Database, worker_ids: Sequence[int], trial: Trial | None = None) -> int:
    """Take back the leases of workers that are known to be dead; returns their number."""
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
