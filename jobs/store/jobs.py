"""The commands on a job: pause, resume, change its priority, cancel, retry; and the log of who asked for them.

A chain is one job here: whichever stage is named, the command is for all of its stages.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, exists, func, insert, or_, select, update

from jobs.errors import NotFoundError, SpecError
from jobs.store.database import Database
from jobs.store.queue.chains import chain_of
from jobs.store.queue.completion import (
    HAS_OPEN_SHARD,
    cancel_documents,
    close_cancelled,
    close_shards,
    open_closed_shards,
    reopen_shards,
)
from jobs.store.queue.deltas import fold_job
from jobs.store.queue.job_counters import add_to_counters, lock_counters
from jobs.store.queue.pauses import paused_values, resumed_values
from jobs.store.rollups import forget_failures
from jobs.store.schema.clock import db_time
from jobs.store.schema.lasting_tables import JobAction
from jobs.store.schema.results import results_of
from jobs.store.schema.states import ENDED_STATES, DocumentStatus, JobState, ShardState
from jobs.store.schema.tables import Document, Job, Shard
from jobs.system.failpoints import failpoint

PUT_BACK = (DocumentStatus.FAILED, DocumentStatus.QUARANTINED, DocumentStatus.CANCELLED)
LONGEST_DETAIL = 1000  # characters of an action's detail in the log
SHARDS_A_TRANSACTION = 50  # a job of ten million documents must not hold the write lock while it is cancelled


def pause(database: Database, job_id: int, reason: str | None = None) -> None:
    """Lease no more shards of the job; workers release theirs after the batch in hand."""
    _change(database, job_id, paused_values(reason), "paused")


def resume(database: Database, job_id: int) -> None:
    """Lease the job's shards again."""
    _change(database, job_id, resumed_values(), "resumed")


def jobs_paused_for(database: Database, reason: str) -> list[int]:
    """The paused jobs whose `reason` begins with this text."""
    with database.reading() as connection:
        waiting = (Job.state == JobState.RUNNING, Job.paused, Job.reason.startswith(reason, autoescape=True))
        return list(connection.execute(select(Job.id).where(*waiting).order_by(Job.id)).scalars())


def set_priority(database: Database, job_id: int, priority: int) -> None:
    """Shards that are leased from now on are chosen by the new priority."""
    _change(database, job_id, {"priority": priority}, "moved in the queue")


def close(database: Database, job_id: int) -> None:
    """Take no more documents for an open job: it ends with the last of those that it has, at once where none waits.
    Does nothing to one that was closed before. Raises SpecError for a job of a corpus, which was never open."""
    with database.writing() as connection:
        lock_counters(connection, job_id)  # whoever appends has done so before this, or is refused after it
        closed = update(Job).where(Job.id == job_id, Job.is_open).values(is_open=False, closed_at=db_time())
        if connection.execute(closed).rowcount:
            close_shards(connection, job_id, 0)
            return
        job = connection.execute(select(Job.closed_at).where(Job.id == job_id)).one_or_none()
        if job is None:
            raise NotFoundError(f"there is no job {job_id}; kvjobs ls lists the jobs")
        if job.closed_at is None:
            raise SpecError(
                f"job {job_id} was made of a corpus and ends by itself; only a job that takes documents can be closed"
            )


def cancel(database: Database, job_id: int) -> int:
    """Cancel the documents without a result; returns their number. Results stay. The documents of a leased shard are
    cancelled when its worker releases it. An open job is closed. If this is interrupted, the reaper or another
    `cancel` finishes it."""
    with database.writing() as connection:
        unfinished = _require_unfinished(connection, job_id, "cancelled")
        connection.execute(
            update(Job)
            .where(Job.id.in_(unfinished))
            .values(cancel_requested_at=func.coalesce(Job.cancel_requested_at, db_time()))
        )
        closed = Job.id.in_(unfinished) & Job.is_open
        connection.execute(update(Job).where(closed).values(is_open=False, closed_at=db_time()))
        # The submit of one that is still ingesting, if it runs, finds the state changed and stops.
        ingesting = Job.id.in_(unfinished) & (Job.state == JobState.INGESTING)
        connection.execute(update(Job).where(ingesting).values(state=JobState.RUNNING))
    failpoint("in-cancel")
    return sum(finish_cancel(database, stage_id) for stage_id in unfinished)


def interrupted_cancels(database: Database) -> list[int]:
    """Jobs whose cancel was requested and that have shards which are not leased: their `cancel` was interrupted, or
    runs at this moment."""
    idle = exists().where(Shard.job_id == Job.id, Shard.state == ShardState.READY)
    asked = (Job.state == JobState.RUNNING, Job.cancel_requested_at.is_not(None))
    with database.reading() as connection:
        return list(connection.execute(select(Job.id).where(*asked, or_(idle, ~HAS_OPEN_SHARD))).scalars())


def finish_cancel(database: Database, job_id: int) -> int:
    """Cancel the open documents of shards that are not leased; returns their number. Several processes may run it."""
    cancelled = 0
    while True:
        with database.writing() as connection:
            lock_counters(connection, job_id)  # a worker releases its shard before this, or finds the cancel after it
            job = connection.execute(select(Job.cancel_requested_at, Job.ingested_at).where(Job.id == job_id)).first()
            if job is None or job.cancel_requested_at is None:
                return cancelled  # the job was retried meanwhile, so it goes on; or it was deleted
            ready = select(Shard.id).where(Shard.job_id == job_id, Shard.state == ShardState.READY)
            shard_ids = connection.execute(ready.limit(SHARDS_A_TRANSACTION)).scalars().all()
            if not shard_ids:
                # Documents of an unfinished ingest that are in no shard yet.
                if job.ingested_at is None:
                    result, written = results_of(connection, job_id), (0, _one_past_last(connection, job_id))
                    cancelled += cancel_documents(connection, result, job_id, *written)
                close_shards(connection, job_id, 0)
                return cancelled
            cancelled += close_cancelled(connection, job_id, shard_ids)


def retry(database: Database, job_id: int) -> int:
    """Reopen failed, quarantined and cancelled documents; returns their number. Results stay.

    A cancelled job goes on; if its corpus was not read to its end, submitting it again reads the rest. Of a chain, a
    stage goes on as well where a stage before it does.
    """
    with database.writing() as connection:
        total, goes_on = 0, False
        job_ids = chain_of(connection, job_id)
        for stage_id in job_ids:
            lock_counters(connection, stage_id)
            fold_job(connection, stage_id)
        for stage_id in job_ids:
            reopened, goes_on = _retry(connection, stage_id, or_after=goes_on)
            total += reopened
        for stage_id in job_ids:
            close_shards(connection, stage_id, 0)  # it was cancelled although every document had ended
    if total and len(job_ids) == 1:
        failpoint("in-retry")
        reopen_shards(database, job_id)
    return total


def _retry(connection: Connection, job_id: int, *, or_after: bool) -> tuple[int, bool]:
    """Reopen a stage. Returns how many documents were reopened, and whether the job goes on. `or_after`: the stage
    before it goes on."""
    job = connection.execute(
        select(Job.state, Job.source, Job.ingested_at, Job.cancel_requested_at).where(Job.id == job_id)
    ).one_or_none()
    if job is None or job.state in (JobState.INGESTING, JobState.FAILED):
        raise SpecError(
            f"the corpus of job {job_id} was not read to its end, so there is nothing to retry; submit it again"
        )
    total = sum(_reopen(connection, job_id, status) for status in PUT_BACK)
    forget_failures(connection, job_id, *PUT_BACK)
    if not total and job.cancel_requested_at is None and not or_after:
        return 0, False
    open_closed_shards(connection, job_id)
    state = JobState.INGESTING if job.ingested_at is None else JobState.RUNNING
    connection.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(state=state, finished_at=None, cancel_requested_at=None, **resumed_values())
    )
    return total, True


def _reopen(connection: Connection, job_id: int, status: DocumentStatus) -> int:
    waiting = {"status": None, "error_code": None, "error": None}
    put_back = update(Document).where(Document.job_id == job_id, Document.status == status).values(waiting)
    tokens = connection.execute(put_back.returning(Document.estimated_tokens)).scalars().all()
    add_to_counters(connection, job_id, **{status.value: -len(tokens), "estimated_done": -sum(tokens)})
    return len(tokens)


def _change(database: Database, job_id: int, values: Mapping[str, Any], verb: str) -> None:
    """Set columns of the unfinished jobs of a chain."""
    with database.writing() as connection:
        unfinished = _require_unfinished(connection, job_id, verb)
        connection.execute(update(Job).where(Job.id.in_(unfinished)).values(values))


def _require_unfinished(connection: Connection, job_id: int, verb: str) -> Sequence[int]:
    """The unfinished jobs of the job's chain, itself included. Raises SpecError where there are none."""
    job_ids = chain_of(connection, job_id)
    locked = select(Job.id, Job.state).where(Job.id.in_(job_ids)).order_by(Job.id).with_for_update()
    states = dict(connection.execute(locked).all())
    if not states:
        raise NotFoundError(f"there is no job {job_id}; kvjobs ls lists the jobs")
    unfinished = [stage_id for stage_id in job_ids if states[stage_id] not in ENDED_STATES]
    if not unfinished:
        if states[job_id] == JobState.CANCELLED and verb != "cancelled":
            raise SpecError(f"job {job_id} is cancelled; to take it up again: kvjobs retry {job_id}")
        raise SpecError(f"job {job_id} is {states[job_id]}; only an unfinished job can be {verb}")
    return unfinished


def _one_past_last(connection: Connection, job_id: int) -> int:
    last = connection.execute(select(func.max(Document.position)).where(Document.job_id == job_id)).scalar()
    return 0 if last is None else int(last) + 1


def log_action(database: Database, job_id: int, action: str, actor: str, detail: str | None) -> int:
    """Log an action before it is performed; returns the number of its row, for `log_outcome`."""
    row = {"job_id": job_id, "action": action, "actor": actor, "detail": detail and detail[:LONGEST_DETAIL]}
    with database.writing() as connection:
        statement = insert(JobAction).values(**row, asked_at=db_time()).returning(JobAction.id)
        return int(connection.execute(statement).scalar_one())


def log_outcome(database: Database, number: int, outcome: str) -> None:
    """Complete the row of an action with what came of it."""
    with database.writing() as connection:
        connection.execute(update(JobAction).where(JobAction.id == number).values(outcome=outcome, ended_at=db_time()))
