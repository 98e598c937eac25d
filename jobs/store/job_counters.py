"""The counters of a job. They change only by the number of rows that the same transaction inserted or ended."""

from sqlalchemy import Connection, select, update

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
    values = {name: getattr(JobCounts, name) + amount for name, amount in amounts.items() if amount}
    if values:
        connection.execute(update(JobCounts).where(JobCounts.job_id == job_id).values(values))
