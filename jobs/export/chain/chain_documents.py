"""The documents of a chain, each with what became of it in every stage.

Knows: the documents of jobs. Does not know: how a result is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.choices import Only
from jobs.store.database import Database
from jobs.store.report.documents.export import OK, WAITING, ExportedDocument, read_documents
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.states import DocumentStatus


@dataclass(frozen=True, slots=True)
class StageError:
    """Why a document has no result in a stage."""

    code: str | None
    message: str | None
    line: int
    stage: int  # counted from 1


@dataclass(frozen=True, slots=True)
class ChainDocument:
    """A document in all stages of a chain; None where a stage has not got it yet."""

    of_stages: tuple[ExportedDocument, *tuple[ExportedDocument | None, ...]]

    @property
    def first(self) -> ExportedDocument:
        """The document in the first stage, with its text as the corpus has it."""
        return self.of_stages[0]

    @property
    def status(self) -> str:
        """The status in the first stage that has no result for the document; `ok` if every stage has one."""
        last = self._last
        return WAITING if last is None else last.status

    @property
    def error(self) -> StageError | None:
        """Why the first stage without a result has none, where that is known."""
        last = self._last
        if last is None or not (last.error_code or last.error):
            return None
        return StageError(last.error_code, last.error, last.line, self._ended_in + 1)

    @property
    def reason(self) -> str:
        """The status, or why a document was skipped."""
        error = self.error
        return error.code if error and error.code and self.status == DocumentStatus.SKIPPED else self.status

    def is_wanted(self, only: Only | None) -> bool:
        """Whether an export of these documents has it; None: those with a result in every stage."""
        match only:
            case Only.ALL:
                return True
            case Only.OK | None:
                return self.status == OK
            case Only.WAITING:
                return self.status == WAITING
            case Only.FAILED:
                return self.status not in (OK, WAITING, DocumentStatus.SKIPPED)

    @property
    def _last(self) -> ExportedDocument | None:
        return self.of_stages[self._ended_in]

    @property
    def _ended_in(self) -> int:
        """The index of the first stage without a result, else of the last one."""
        without = (index for index, document in enumerate(self.of_stages) if document is None or document.status != OK)
        return next(without, len(self.of_stages) - 1)


def chain_documents(database: Database, jobs: Sequence[JobSummary], *, with_text: bool) -> Iterator[ChainDocument]:
    """Each document of the first stage with its results in the others. `with_text`: the first has its payload."""
    first = read_documents(database, jobs[0].job_id, only=Only.ALL, with_text=with_text)
    others = [read_documents(database, job.job_id, only=Only.ALL) for job in jobs[1:]]
    upcoming = [next(other, None) for other in others]
    for document in first:
        found: list[ExportedDocument | None] = []
        for index, other in enumerate(others):
            there = upcoming[index]
            is_same = there is not None and there.position == document.position
            found.append(there if is_same else None)
            if is_same:
                upcoming[index] = next(other, None)
        yield ChainDocument((document, *found))
