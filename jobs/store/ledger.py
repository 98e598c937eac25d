"""The books: counters, and the append-only log of what happened to each shard. Only inserted rows are counted."""

from sqlalchemy import Connection, insert, update

from jobs.store.clock import db_time
from jobs.store.tables import JobCounts, ShardEvent


def bump(connection: Connection, job_id: int, **amounts: int) -> None:
    values = {name: getattr(JobCounts, name) + amount for name, amount in amounts.items() if amount}
    if values:
        connection.execute(update(JobCounts).where(JobCounts.job_id == job_id).values(values))


def log_event(
    connection: Connection,
    job_id: int,
    shard_id: int,
    event: str,
    epoch: int,
    worker_id: int | None,
    documents: int | None = None,
    detail: str | None = None,
) -> None:
    connection.execute(
        insert(ShardEvent).values(
            job_id=job_id,
            shard_id=shard_id,
            at=db_time(),
            event=event,
            epoch=epoch,
            worker_id=worker_id,
            documents=documents,
            detail=detail,
        )
    )
