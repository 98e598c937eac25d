"""Open jobs: documents that are appended, and what there is of them."""

from collections.abc import Callable, Sequence
from typing import Any

from jobs.documents import AppendState
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.store.schema.tables import Document
from jobs.submission.open_job import OpenJob, append
from tests.store.leasing import take, write
from tests.store.submission.corpora import rows

ADDED, PRESENT, REFUSED = AppendState.ADDED, AppendState.PRESENT, AppendState.REFUSED
Open = Callable[..., OpenJob]


def documents(*ids: str) -> list[dict[str, Any]]:
    return [{"id": external_id, "text": f"text of {external_id}"} for external_id in ids]


def states(database: Database, job: OpenJob, sent: Sequence[Any]) -> list[AppendState]:
    return [appended.state for appended in append(database, job, sent)]


def summary(database: Database, job: OpenJob) -> JobSummary:
    with database.reading() as connection:
        return find_job(connection, str(job.job_id))


def texts(database: Database, job: OpenJob) -> list[tuple[Any, ...]]:
    return rows(database, Document, "position", "external_id", "text", job_id=job.job_id)


def work(database: Database) -> None:
    """Lease the next shard, and translate all of it."""
    lease = take(database)
    for index in range(len(lease.batches)):
        write(database, lease, index)
