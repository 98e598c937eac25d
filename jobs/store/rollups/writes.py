"""Adding to the rollups of a job.

Every function with a connection runs inside a transaction that has locked the job's row in `job_counts`: of two
transactions that add to the same rows of a job the second waits there, so they never wait for each other.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, delete

from jobs.store.connection.dialect import Addition, Rows, add_to_rows
from jobs.store.rollups.batch_sums import BatchSums, minutes_of
from jobs.store.schema.provider_tables import HandoverCounts, JobProvider
from jobs.store.schema.rollup_tables import (
    FailureCounts,
    MeasureCounts,
    MinuteSums,
    PastLengthSums,
    PhaseSums,
    RecordedBatch,
    StepSums,
)
from jobs.store.schema.states import DocumentStatus

Failures = Mapping[tuple[DocumentStatus, str | None], int]  # how many documents, by status and code
# Cancelled documents have no reason to count.
FAILURES = (DocumentStatus.REJECTED, DocumentStatus.FAILED, DocumentStatus.QUARANTINED)


def additions_of(sums: BatchSums, providers: Rows = (), handovers: Rows = ()) -> tuple[Addition, ...]:
    """What a recorded batch adds to every rollup except `failure_counts`, with these rows of the job's providers: for
    `add_to_rows`. Computed before the lock, for which others wait."""
    batch = sums.batch()
    return (
        (PhaseSums, sums.phases()),
        (StepSums, sums.steps()),
        (PastLengthSums, sums.past_lengths()),
        (MinuteSums, minutes_of(batch)),
        (MeasureCounts, sums.measures()),
        (RecordedBatch, [batch]),
        (JobProvider, providers),
        (HandoverCounts, handovers),
    )


def add_failures(connection: Connection, job_id: int, numbers: Failures) -> None:
    """Add documents that were rejected, failed or were quarantined."""
    add_to_rows(connection, failures_addition(job_id, numbers))


def failures_addition(job_id: int, numbers: Failures) -> Addition:
    """What such documents add to `failure_counts`."""
    rows = [
        {"job_id": job_id, "status": status, "error_code": code or "", "documents": number}
        for (status, code), number in sorted(numbers.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]
    return FailureCounts, rows


def forget_failures(connection: Connection, job_id: int, *statuses: DocumentStatus) -> None:
    """Count no document with one of these statuses any more: all of them wait again, or are deleted."""
    rows = delete(FailureCounts).where(FailureCounts.job_id == job_id, FailureCounts.status.in_(statuses))
    connection.execute(rows)
