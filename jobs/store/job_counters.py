"""The counters of a job. They change only by the number of rows that the same transaction inserted or ended."""

from functools import cache

from sqlalchemy import Connection, Update, bindparam, select, update

from jobs.store.schema.tables import JobCounts


def lock_counters(connection: Connection, job_id: int) -> None:
    """Lock the job's counters row until the transaction ends: needed before opening or closing anything of the job.

    On PostgreSQL, transactions run concurrently and do not see what the others have not committed: one could close a
    shard in which nothing is left to do while another reopens a document of it. So every transaction that opens or
    closes documents, shards or a job locks this row first, then reads, then writes. (SQLite has one writer at a time.)
    Rows are always locked in this order: shard, counters, job.
    """
    connection.execute(select(JobCounts.job_id).where(JobCounts.job_id == job_id).with_for_update())


def add_to_counters(connection: Connection, job_id: int, **amounts: int) -> None:
    """Add to the named counters; an amount may be negative."""
    added = {f"add_{name}": amount for name, amount in amounts.items() if amount}
    if added:
        connection.execute(_addition(tuple(name for name in amounts if amounts[name])), {"of_job": job_id, **added})


@cache
def _addition(names: tuple[str, ...]) -> Update:
    """The statement that adds to these counters. Kept, because making it takes ten times as long as executing it."""
    sums = {name: getattr(JobCounts, name) + bindparam(f"add_{name}") for name in names}
    return update(JobCounts).where(JobCounts.job_id == bindparam("of_job")).values(sums)
