"""The documents of a job that ended without a result, grouped by their reason; and why continuations ended."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.current_sums import current
from jobs.store.schema.result_tables import RESULTS
from jobs.store.schema.rollup_tables import FailureCounts
from jobs.store.schema.tables import Document


@dataclass(frozen=True, slots=True)
class Failure:
    """Documents that failed, were quarantined or were rejected for the same reason."""

    status: str
    code: str | None
    documents: int
    samples: tuple["FailedDocument", ...]  # the first few


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """An example of the documents that failed for one reason."""

    id: str | None
    line: int
    message: str | None


def failures(connection: Connection, job: JobSummary, num_samples: int = 3) -> list[Failure]:
    """The failures of a job by reason, most frequent first. Reads a rollup, and of the documents only the samples."""
    count = current(FailureCounts)
    groups = connection.execute(
        select(count.status, func.nullif(count.error_code, "").label("error_code"), count.documents)
        .where(count.job_id == job.job_id)
        .order_by(count.documents.desc(), count.status, count.error_code)
    ).all()
    found = []
    for group in groups:
        samples = connection.execute(
            select(Document.external_id, Document.line, Document.error)
            .where(
                Document.job_id == job.job_id,
                Document.status == group.status,
                # PostgreSQL searches no index for IS NOT DISTINCT FROM.
                Document.error_code.is_(None) if group.error_code is None else Document.error_code == group.error_code,
            )
            .order_by(Document.position)
            .limit(num_samples)
        )
        found.append(
            Failure(group.status, group.error_code, group.documents, tuple(FailedDocument(*row) for row in samples))
        )
    return found


def finish_counts(connection: Connection, job: JobSummary) -> dict[str, int]:
    """The documents of each reason for which a continuation ended; empty for a job of another task, and where nothing
    has ended. Reads every result of the job."""
    field, table = job.kind.counted_by, RESULTS[job.task]
    if field is None:
        return {}
    value = getattr(table, field.name)
    rows = connection.execute(select(value, func.count()).where(table.job_id == job.job_id).group_by(value))
    found = {row[0]: row[1] for row in rows}
    return {str(value): found[value] for value in field.words if value in found}
