"""The documents of a job that ended without a result, grouped by their reason."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.states import DocumentStatus
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
    """One of these documents."""

    id: str | None
    line: int
    message: str | None


def failures(connection: Connection, job: JobSummary, num_samples: int = 3) -> list[Failure]:
    """The failures of a job by reason, most frequent first. Reads the documents only if the counters show failures."""
    bad = (DocumentStatus.FAILED, DocumentStatus.QUARANTINED, DocumentStatus.REJECTED)
    if not job.failed + job.quarantined + job.rejected:
        return []
    of_job = (Document.job_id == job.job_id, Document.status.in_(bad))
    groups = connection.execute(
        select(Document.status, Document.error_code, func.count().label("documents"))
        .where(*of_job)
        .group_by(Document.status, Document.error_code)
        .order_by(func.count().desc(), Document.status, Document.error_code)
    ).all()
    found = []
    for group in groups:
        samples = connection.execute(
            select(Document.external_id, Document.line, Document.error)
            .where(
                Document.job_id == job.job_id,
                Document.status == group.status,
                Document.error_code.is_not_distinct_from(group.error_code),
            )
            .order_by(Document.position)
            .limit(num_samples)
        )
        found.append(
            Failure(group.status, group.error_code, group.documents, tuple(FailedDocument(*row) for row in samples))
        )
    return found
