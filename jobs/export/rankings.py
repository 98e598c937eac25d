"""The rankings of a job in the formats of other programs, and as the orders that `kvjobs metrics` measures."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from jobs.errors import SpecError
from jobs.export.export_formats import Format
from jobs.retrieval.ranking_formats import CohereLines, RankedQuery, TrecRun
from jobs.store.report.documents.export import ExportedDocument, read_documents

if TYPE_CHECKING:
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary


@dataclass(frozen=True, slots=True)
class RankingFormat:
    """A TREC run or Cohere's answers. A query that could not be ranked keeps the order of its candidates; one that
    could not be read is left out."""

    writer: TrecRun | CohereLines

    def head(self) -> bytes:
        return self.writer.head()

    def line(self, document: ExportedDocument) -> bytes:
        """All lines of a query. The document must have its text."""
        query = ranked_query(document)
        return b"" if query is None else self.writer.line(query)

    def tail(self) -> bytes:
        return b""


def ranking_format(form: Format, job: "JobSummary") -> RankingFormat:
    """The writer; raises SpecError for a job of another task."""
    require_rankings(job, f"--format {form}")
    tag = f"kvjobs-{PurePath(job.model).name}"
    return RankingFormat(TrecRun(tag) if form is Format.TREC else CohereLines())


def ranked_queries(database: "Database", job: "JobSummary") -> Iterator[RankedQuery]:
    """Every query in a terminal state that could be read."""
    for document in read_documents(database, job.job_id, with_text=True):
        if query := ranked_query(document):
            yield query


def ranked_query(document: ExportedDocument) -> RankedQuery | None:
    """A query with its ranking; None if its line could not be read."""
    if document.external_id is None or document.text is None:
        return None
    return RankedQuery.restore(
        document.external_id,
        payload=document.text,
        ranking=document.result.get("candidates"),
        error=document.error or document.status,
        has_numeric_id=document.numeric_id,
    )


def require_rankings(job: "JobSummary", what: str) -> None:
    """Raise SpecError for a job of another task."""
    if not job.kind.has_candidates:
        raise SpecError(f"{what} is for jobs that rerank, and the task of job {job.label} is {job.task}")
