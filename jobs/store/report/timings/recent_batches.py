"""The batches of a job that were recorded last, each with its worker: when lanes worked, and how fast."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select

from jobs.store.schema.rollup_tables import RecordedBatch
from jobs.store.schema.tables import Worker

MOST_BATCHES = 1000


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """A batch of documents that one lane processed."""

    batch_id: int
    shard_id: int
    worker_id: int
    host: str | None
    lane: int
    ended_at: datetime
    documents: int  # with a result
    failed: int  # without
    source_tokens: int
    target_tokens: int
    busy_s: float  # 0 where timings are off
    model_s: float  # of these in model calls

    @property
    def tokens(self) -> int:
        """The tokens that the batch read and generated."""
        return self.source_tokens + self.target_tokens

    @property
    def started_at(self) -> datetime:
        """When its first phase began, as far as its timings say."""
        return self.ended_at - timedelta(seconds=self.busy_s)

    @property
    def lane_name(self) -> str:
        """`box, worker 3, lane 0`."""
        return ", ".join(part for part in (self.host, f"worker {self.worker_id}", f"lane {self.lane}") if part)


def recent_batches(connection: Connection, job_id: int, limit: int = MOST_BATCHES) -> list[BatchSummary]:
    """The newest batches, oldest first."""
    batch = RecordedBatch
    named = {"batch_id": batch.id, "host": Worker.host}
    columns: list[Any] = [named.get(name, getattr(batch, name, None)) for name in BatchSummary.__dataclass_fields__]
    rows = connection.execute(
        select(*columns)
        .outerjoin(Worker, Worker.id == batch.worker_id)
        .where(batch.job_id == job_id)
        .order_by(batch.id.desc())
        .limit(limit)
    ).all()
    return [BatchSummary(*row) for row in reversed(rows)]
