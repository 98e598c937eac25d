"""How many documents of a job have which perplexity, or which length, from a rollup."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from jobs.buckets import BucketMeasure, bounds_of_bucket
from jobs.store.schema.current_sums import current
from jobs.store.schema.rollup_tables import MeasureCounts


@dataclass(frozen=True, slots=True)
class Bucket:
    """The documents whose measure is at least `start` and below `stop`."""

    start: float
    stop: float  # infinite for the last bucket there can be
    documents: int


def histogram(connection: Connection, job_id: int, measure: BucketMeasure) -> list[Bucket]:
    """Every bucket from the first to the last that holds a document, those without one in between too."""
    counts = current(MeasureCounts)
    rows = connection.execute(
        select(counts.bucket, counts.documents)
        .where(counts.job_id == job_id, counts.measure == measure, counts.documents > 0)
        .order_by(counts.bucket)
    )
    found: dict[int, int] = {int(bucket): int(documents) for bucket, documents in rows}
    if not found:
        return []
    every = range(min(found), max(found) + 1)
    return [Bucket(*bounds_of_bucket(measure, bucket), found.get(bucket, 0)) for bucket in every]
