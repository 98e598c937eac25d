"""Results of a job that runs, as lines of JSON as an export has them: of some ids, or as they come."""

from collections.abc import Collection
from dataclasses import dataclass

from jobs.export.export_formats import Format, RecordFormat, record_format
from jobs.position_ranges import PositionRanges
from jobs.store.database import Database
from jobs.store.report.documents.ended import documents_of_ids, ended_documents
from jobs.store.report.job_summary import JobSummary


@dataclass(frozen=True, slots=True)
class NewResults:
    """Lines that a reader has not seen, and its place behind them."""

    lines: list[bytes]
    place: str  # for the next call
    is_last: bool  # the job has ended, and there are no others


def results_of_ids(database: Database, job: JobSummary, ids: Collection[str]) -> dict[str, bytes]:
    """The line of each document with one of these ids, by id; its "status" is `waiting` where it has not ended. An id
    that the job does not have has none."""
    form = _format(job)
    return {
        document.external_id: form.line(document)
        for document in documents_of_ids(database, job.job_id, ids)
        if document.external_id is not None
    }


def new_results(database: Database, job: JobSummary, place: str = "", limit: int = 500) -> NewResults:
    """Up to `limit` lines of documents that have ended since the `place` of an earlier answer; without one, from the
    beginning. Each document comes once, as it ended first. Raises SpecError for a text that is no such place."""
    found = ended_documents(database, job.job_id, PositionRanges.parse(place), limit)
    form = _format(job)
    return NewResults([form.line(document) for document in found.documents], str(found.seen), found.is_last)


def _format(job: JobSummary) -> RecordFormat:
    return record_format(Format.JSONL, job, extras=(), field_columns=())
