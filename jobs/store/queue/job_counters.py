"""The counters of a job. They change only by the number of rows that the same transaction inserted or ended."""

from functools import cache
from typing import Any

from sqlalchemy import Connection, Update, bindparam, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from jobs.store.schema.tables import JobCounts, JobTurn

COUNTERS = tuple(column.name for column in JobCounts.__table__.columns if not column.primary_key)


def lock_counters(connection: Connection, job_id: int) -> None:
    """Lock the job's counters row until the transaction ends: needed before opening or closing anything of the job.

    On PostgreSQL, transactions run concurrently and do not see what the others have not committed: one could close a
    shard in which nothing is left to do while another reopens a document of it. So every transaction that opens or
    closes documents, shards or a job locks this row first, then reads, then writes. (SQLite has one writer at a time.)
    Only `finish_shard` does without where it can, and `end_if_over` and `reopen_shards` make up for it.
    Rows are always locked in this order: shard, counters, job.
    """
    connection.execute(select(JobCounts.job_id).where(JobCounts.job_id == job_id).with_for_update())


def add_to_counters(connection: Connection, job_id: int, **amounts: int) -> None:
    """Add to the named counters; an amount may be negative."""
    added = {f"add_{name}": amount for name, amount in amounts.items() if amount}
    if added:
        connection.execute(_addition(tuple(name for name in amounts if amounts[name])), {"of_job": job_id, **added})


def close_one_shard(connection: Connection, job_id: int) -> int:
    """Subtract a shard from the open ones, which locks the counters as `lock_counters` does; returns how many are left
    open."""
    left: int = connection.execute(_closing_statement(), {"of_job": job_id}).scalar_one()
    return left


def wait_for_turn(connection: Connection, job_id: int) -> None:
    """Wait until no other recorder of the job that ends something has the lock of its counters; before `lock_counters`,
    never behind it.

    PostgreSQL wakes everyone who waits for a row whenever it changes, and all but one wait again: with a hundred
    workers that took more of its time than recording. Those who wait for a row that never changes are woken one by
    one. (An advisory lock would do the same, but whoever may connect may take it and keep it.) It protects nothing: the
    lock of the counters does, which also holds beside a worker of an older version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(JobTurn.job_id).where(JobTurn.job_id == job_id).with_for_update())


@cache
def _closing_statement() -> ReturningUpdate[Any]:
    return (
        update(JobCounts)
        .where(JobCounts.job_id == bindparam("of_job"))
        .values(shards_open=JobCounts.shards_open - 1)
        .returning(JobCounts.shards_open)
    )


@cache
def _addition(names: tuple[str, ...]) -> Update:
    """The statement that adds to these counters. Kept, because making it takes ten times as long as executing it."""
    sums = {name: getattr(JobCounts, name) + bindparam(f"add_{name}") for name in names}
    return update(JobCounts).where(JobCounts.job_id == bindparam("of_job")).values(sums)
