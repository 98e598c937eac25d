"""Batches as `recent_batches` returns them, intervals as `intervals_of_job` does."""

from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.store.report.timings.minutes import Interval
from jobs.store.report.timings.recent_batches import BatchSummary

START = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def batch(began_s: float, busy_s: float, *, lane: int = 0, **changed: Any) -> BatchSummary:
    """A batch of 10 documents that a lane began so many seconds after `START`."""
    values: dict[str, Any] = {
        "batch_id": 1,
        "shard_id": 1,
        "worker_id": 1,
        "host": "box",
        "lane": lane,
        "ended_at": START + timedelta(seconds=began_s + busy_s),
        "documents": 10,
        "failed": 0,
        "source_tokens": 100,
        "target_tokens": 100,
        "busy_s": busy_s,
        "model_s": busy_s * 0.75,
    }
    return BatchSummary(**values | changed)


def interval(minute: int, **sums: Any) -> Interval:
    """An interval of 10 documents that begins so many minutes after `START`."""
    values = {"documents": 10, "failed": 0, "source_tokens": 0, "target_tokens": 0, "busy_s": 0.0, "model_s": 0.0}
    return Interval(start=START + timedelta(minutes=minute), **values | sums)
