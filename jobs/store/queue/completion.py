"""The end of documents, shards and jobs. Every function runs inside the caller's transaction."""

import functools
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, Update, and_, bindparam, case, exists, literal, or_, select, update
from sqlalchemy.orm import aliased

from jobs.store.database import Database
from jobs.store.queue.chains import hand_on, next_stage
from jobs.store.queue.deltas import fold_job
from jobs.store.queue.job_counters import add_to_counters, lock_counters
from jobs.store.queue.job_events import announce_end
from jobs.store.queue.shard_events import log_event
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import ResultTable, in_range, is_open, open_positions, results_of
from jobs.store.schema.states import ENDED_STATES, DocumentStatus, JobState, ShardState
from jobs.store.schema.tables import Document, Job, JobCounts, Shard
from jobs.system.failpoints import failpoint

HAS_OPEN_SHARD = exists().where(Shard.job_id == Job.id, Shard.state.in_([ShardState.READY, ShardState.LEASED]))


def end_documents(
    connection: Connection,
    result: ResultTable,
    job_id: int,
    start: int,
    stop: int,
    status: DocumentStatus,
    code: str | None = None,
    message: str | None = None,
) -> list[int]:
    """Give the open documents of a range a terminal status; returns the estimated tokens of each. The caller adds
    them to the job's counters."""
    ended = connection.execute(
        update(Document)
        .where(
            in_range(Document, job_id, start, stop),
            Document.position.in_(open_positions(result, job_id, start, stop)),
        )
        .values(status=status, error_code=code, error=message)
        .returning(Document.estimated_tokens)
    )
    return list(ended.scalars())


def cancel_documents(connection: Connection, result: ResultTable, job_id: int, start: int, stop: int) -> int:
    """Cancel the open documents of a range, and add them to the job's counters. Returns their number."""
    tokens = end_documents(connection, result, job_id, start, stop, DocumentStatus.CANCELLED)
    add_to_counters(connection, job_id, cancelled=len(tokens), estimated_done=sum(tokens))
    return len(tokens)


def close_cancelled(connection: Connection, job_id: int, shard_ids: Sequence[int]) -> int:
    """If a cancel of the job was requested, cancel the open documents of these shards, except leased ones. Returns how
    many documents were cancelled."""
    cancelled = connection.execute(
        update(Shard)
        .where(
            Shard.id.in_(shard_ids),
            Shard.state == ShardState.READY,
            exists().where(Job.id == Shard.job_id, Job.cancel_requested_at.is_not(None)),
        )
        .values(state=ShardState.CANCELLED)
        .returning(Shard.id, Shard.start, Shard.stop, Shard.lease_epoch)
    ).all()
    total = 0
    result = results_of(connection, job_id)
    for shard in cancelled:
        total += cancel_documents(connection, result, job_id, shard.start, shard.stop)
        log_event(connection, job_id, shard.id, "cancelled", shard.lease_epoch, None)
        pass_on(connection, job_id, shard.start, shard.stop)
    close_shards(connection, job_id, len(cancelled))
    return total


def pass_on(connection: Connection, job_id: int, start: int, stop: int) -> None:
    """Give the documents of a shard that is closed to the next stage of the job's chain, if there is one. A stage that
    has nothing to compute, such as a filter, passes them on at once."""
    new = hand_on(connection, job_id, start, stop)
    if new is not None:
        failpoint("in-hand-on")
    if new is not None and new.is_closed:
        pass_on(connection, new.job_id, start, stop)
    elif new is not None:
        close_cancelled(connection, new.job_id, [new.shard_id])


def close_shards(connection: Connection, job_id: int, count: int) -> None:
    """Subtract closed shards from the open ones; with the last one the job is done or cancelled, unless documents may
    still be appended to it. A later stage of a chain also waits for the stage before it to end."""
    if count:
        add_to_counters(connection, job_id, shards_open=-count)
    has_ended = connection.execute(_end_statement(), {"ended_id": job_id}).rowcount
    following = next_stage(connection, job_id) if has_ended else None
    if has_ended:
        fold_job(connection, job_id)
    if has_ended and following is None:
        announce_end(connection, job_id)
    if following is not None:
        lock_counters(connection, following)
        close_shards(connection, following, 0)


def end_if_over(database: Database, job_id: int) -> None:
    """End the job if nothing of it is open, behind a transaction that closed a shard of it: of two that close the last
    two shards at once, neither sees the other's, but the one that comes here later does. Where its process dies before
    it comes here, the reaper does (`jobs_to_end`). On SQLite, and of a chain, the transaction itself ended the job."""
    if database.is_sqlite:
        return
    with database.reading_once() as connection:
        if not connection.execute(_may_end_statement(), {"of_job": job_id}).scalar():
            return
    with database.writing() as connection:
        lock_counters(connection, job_id)
        fold_job(connection, job_id)
        if connection.execute(_waiting_statement(), {"of_job": job_id}).scalar_one_or_none() == 0:
            close_shards(connection, job_id, 0)
            return
    reopen_shards(database, job_id)


def jobs_to_end(database: Database) -> list[int]:
    """The running jobs of which no shard is open: the process that closed the last one died before it ended the job, or
    does so at this moment."""
    if database.is_sqlite:
        return []  # which ends a job in the transaction that closes its last shard
    running = (Job.state == JobState.RUNNING, ~Job.is_open, Job.chain.is_(None), Job.ingested_at.is_not(None))
    with database.reading() as connection:
        return list(connection.execute(select(Job.id).where(*running, ~HAS_OPEN_SHARD)).scalars())


def reopen_shards(database: Database, job_id: int) -> None:
    """Open the closed shards in which documents wait, behind a transaction that opened documents.

    On PostgreSQL, a recorder that closed a shard in the meantime did not see the documents that were opened in it. The
    shards that are leased now are locked first: so every recorder that looked at its documents before they were opened
    has committed before the closed shards are looked at, and every later one has seen them."""
    if database.is_sqlite:
        return
    with database.writing() as connection:
        leased = select(Shard.id).where(Shard.job_id == job_id, Shard.state == ShardState.LEASED).order_by(Shard.id)
        connection.execute(leased.with_for_update())
        lock_counters(connection, job_id)
        open_closed_shards(connection, job_id)
        close_shards(connection, job_id, 0)


def open_closed_shards(connection: Connection, job_id: int) -> None:
    """Open the closed shards in which documents wait."""
    waiting = exists().where(
        Document.job_id == Shard.job_id,
        Document.position >= Shard.start,
        Document.position < Shard.stop,
        *is_open(results_of(connection, job_id)),
    )
    reopened = connection.execute(
        update(Shard)
        .where(Shard.job_id == job_id, Shard.state.in_([ShardState.DONE, ShardState.CANCELLED]), waiting)
        .values(state=ShardState.READY, crashes=0, available_at=db_time())
    )
    add_to_counters(connection, job_id, shards_open=reopened.rowcount)


@functools.cache
def _may_end_statement() -> Select[Any]:
    """Whether a job runs, is no stage of a chain, and none of its shards is open; made once, as `_end_statement`."""
    this = (Job.id == bindparam("of_job"), Job.state == JobState.RUNNING, Job.chain.is_(None))
    return select(exists().where(*this, ~HAS_OPEN_SHARD))


@functools.cache
def _waiting_statement() -> Select[Any]:
    """How many documents of a job wait, by its counters."""
    ended = (JobCounts.succeeded, JobCounts.rejected, JobCounts.failed, JobCounts.quarantined)
    more = (JobCounts.cancelled, JobCounts.skipped)
    return select(JobCounts.documents - sum((*ended, *more), literal(0))).where(JobCounts.job_id == bindparam("of_job"))


@functools.cache
def _end_statement() -> Update:
    """Ends a job if nothing of it is open. Made once: it is asked at the end of every shard, and takes longer to make
    than to run."""
    before = aliased(Job)
    stage_before = and_(before.chain == Job.chain, before.stage == Job.stage - 1)
    over = and_(
        ~Job.is_open,
        ~HAS_OPEN_SHARD,
        ~exists().where(stage_before, before.state.not_in(ENDED_STATES)),
    )
    any_cancelled = exists().where(JobCounts.job_id == Job.id, JobCounts.cancelled > 0)
    lost = exists().where(stage_before, before.state == JobState.CANCELLED)
    cancelled = and_(Job.cancel_requested_at.is_not(None), or_(any_cancelled, Job.ingested_at.is_(None), lost))
    return (
        update(Job)
        .where(Job.id == bindparam("ended_id"), Job.state == JobState.RUNNING, over)
        .values(state=case((cancelled, JobState.CANCELLED), else_=JobState.DONE), finished_at=db_time())
    )
