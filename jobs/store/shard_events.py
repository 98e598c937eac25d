"""The append-only log of what happened to each shard."""

from sqlalchemy import Connection, insert

from jobs.store.schema.clock import db_time
from jobs.store.schema.tables import ShardEvent


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
    """Append an event; `documents` is how many it concerned."""
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
