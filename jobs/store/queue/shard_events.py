"""The append-only log of what happened to each shard."""

from sqlalchemy import Connection, insert

from jobs.store.schema.clock import db_time
from jobs.store.schema.tables import ShardEvent

INSERT = insert(ShardEvent).values(at=db_time())  # made once: making it takes eight times as long as executing it


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
    values = {"job_id": job_id, "shard_id": shard_id, "event": event, "epoch": epoch, "worker_id": worker_id}
    connection.execute(INSERT, values | {"documents": documents, "detail": detail})
