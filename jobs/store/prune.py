"""Deleting ended jobs with all their rows, one batch per transaction, so that workers do not wait for the lock."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, delete, func, select, tuple_, update

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.job_counters import lock_counters
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS
from jobs.store.schema.rollup_tables import SUMS, RecordedBatch
from jobs.store.schema.states import ENDED_STATES, JobState
from jobs.store.schema.tables import Document, Job, Shard, ShardEvent, Step

ROWS_PER_BATCH = 5_000
REASON = "being pruned; if that was interrupted: kvjobs db prune {job_id}"


def ended_before(connection: Connection, days: float) -> list[int]:
    """Jobs that ended more than so many days ago."""
    ended_at = func.coalesce(Job.finished_at, Job.created_at)
    old = select(Job.id).where(Job.state.in_(ENDED_STATES), ended_at < db_time(-86400 * days)).order_by(Job.id)
    return list(connection.execute(old).scalars())


def prune_job(database: Database, job_id: int, advance: Callable[[int], None] = lambda rows: None) -> None:
    """Delete an ended job; `advance` is called with the number of rows deleted. If interrupted, call it again."""
    with database.writing() as connection:
        lock_counters(connection, job_id)  # a retry commits before this and is seen here, or finds the job failed
        # From here on the job is incomplete: it cannot be exported, resumed or found by its name.
        claimed = connection.execute(
            update(Job)
            .where(Job.id == job_id, Job.state.in_(ENDED_STATES))
            .values(
                state=JobState.FAILED,
                reason=REASON.format(job_id=job_id),
                name=None,
                content_key=f"pruned {job_id}",
            )
        )
        if not claimed.rowcount:
            raise SpecError(f"job {job_id} was retried or deleted meanwhile; nothing was deleted")
    positioned = map(_by_position, (*RESULTS.values(), Document))
    # The shards before their log: nothing is logged about a shard that does not exist.
    for batch in (*positioned, *map(_by_id, (Shard, Step, ShardEvent, RecordedBatch)), *map(_by_key, SUMS)):
        while True:
            with database.writing() as connection:
                deleted = batch(connection, job_id)
            if not deleted:
                break
            advance(deleted)
    with database.writing() as connection:
        connection.execute(delete(Job).where(Job.id == job_id))  # deletes its counters too


def _by_position(table: Any) -> Callable[[Connection, int], int]:
    def batch(connection: Connection, job_id: int) -> int:
        first = select(table.position).where(table.job_id == job_id).order_by(table.position).limit(ROWS_PER_BATCH)
        stop = connection.execute(select(func.max(first.subquery().c.position))).scalar()
        if stop is None:
            return 0
        return connection.execute(delete(table).where(table.job_id == job_id, table.position <= stop)).rowcount

    return batch


def _by_id(table: Any) -> Callable[[Connection, int], int]:
    def batch(connection: Connection, job_id: int) -> int:
        some = select(table.id).where(table.job_id == job_id).limit(ROWS_PER_BATCH)
        return connection.execute(delete(table).where(table.id.in_(some))).rowcount

    return batch


def _by_key(table: Any) -> Callable[[Connection, int], int]:
    key = tuple_(*table.__table__.primary_key)

    def batch(connection: Connection, job_id: int) -> int:
        some = select(*table.__table__.primary_key).where(table.job_id == job_id).limit(ROWS_PER_BATCH)
        return connection.execute(delete(table).where(key.in_(some))).rowcount

    return batch
