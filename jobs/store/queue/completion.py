"""The end of documents, shards and jobs. Every function runs inside the caller's transaction."""

import functools
from collections.abc import Sequence

from sqlalchemy import Connection, Update, and_, bindparam, case, exists, or_, update
from sqlalchemy.orm import aliased

from jobs.store.queue.chains import hand_on, next_stage
from jobs.store.queue.deltas import fold_job
from jobs.store.queue.job_counters import add_to_counters, lock_counters
from jobs.store.queue.job_events import announce_end
from jobs.store.queue.shard_events import log_event
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import ResultTable, in_range, open_positions, results_of
from jobs.store.schema.states import ENDED_STATES, DocumentStatus, JobState, ShardState
from jobs.store.schema.tables import Document, Job, JobCounts, Shard
from jobs.system.failpoints import failpoint


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


@functools.cache
def _end_statement() -> Update:
    """Ends a job if nothing of it is open. Made once: it is asked at the end of every shard, and takes longer to make
    than to run."""
    before = aliased(Job)
    stage_before = and_(before.chain == Job.chain, before.stage == Job.stage - 1)
    over = and_(
        ~Job.is_open,
        exists().where(JobCounts.job_id == Job.id, JobCounts.shards_open == 0),
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
