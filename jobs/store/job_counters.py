"""The books: counters, and the append-only log of what happened to each shard. Only inserted rows are counted."""

from sqlalchemy import Connection, select, update

from jobs.store.schema.tables import JobCounts


def lock_counters(connection: Connection, job_id: int) -> None:
    """Be the only one who opens or closes anything of this job until the transaction ends.

    PostgreSQL lets two transactions run side by side, each blind to what the other has not committed: one closes a
    shard in which it sees nothing left to do, while another puts a document of it back. Whoever opens or closes takes
    the row of the job's counters first, then looks. (SQLite has one writer at a time anyway.) The order is always:
    the shard's row, the counters' row, the job's row.
    """
    connection.execute(select(JobCounts.job_id).where(JobCounts.job_id == job_id).with_for_update())


def add_to_counters(connection: Connection, job_id: int, **amounts: int) -> None:
    values = {name: getattr(JobCounts, name) + amount for name, amount in amounts.items() if amount}
    if values:
        connection.execute(update(JobCounts).where(JobCounts.job_id == job_id).values(values))
