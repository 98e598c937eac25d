"""The documents of a job by what became of them, in the words of every command, page and JSON.

docs/questions.md defines the words ("What became of the documents").
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from jobs.text.formatting import count, counted

NOT_OK = ("failed", "quarantined", "rejected", "cancelled")
OUTCOMES = ("ok", *NOT_OK, "skipped", "waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentCounts:
    """How many documents have which outcome; every document has exactly one of `OUTCOMES`."""

    documents: int  # lines of the corpus; of a later stage of a chain with those that the stage before will hand on
    ok: int
    failed: int
    quarantined: int
    rejected: int
    cancelled: int
    skipped: int

    @property
    def done(self) -> int:
        """The documents that the job has dealt with; not rejected lines, which are no work, nor cancelled documents."""
        return self.ok + self.failed + self.quarantined + self.skipped

    @property
    def to_do(self) -> int:
        """The documents that the job has to deal with: `done` reaches this number unless the job is cancelled."""
        return self.documents - self.rejected

    @property
    def waiting(self) -> int:
        return self.to_do - self.done - self.cancelled

    @property
    def not_ok(self) -> int:
        """The documents that ended without the result that they were to have."""
        return sum(getattr(self, name) for name in NOT_OK)

    def words(self, *outcomes: str) -> list[str]:
        """The counts of these outcomes that are not 0."""
        return [f"{count(number)} {name}" for name in outcomes if (number := getattr(self, name))]

    def sentence(self, noun: str = "document") -> str:
        """`480 of 1,000 documents ok, 8 failed, 10 rejected, 502 waiting`"""
        return ", ".join([f"{count(self.ok)} of {counted(self.documents, noun)} ok", *self.words(*OUTCOMES[1:])])


def sum_of(parts: Iterable[DocumentCounts]) -> DocumentCounts:
    """The counts of several jobs together."""
    parts = list(parts)
    names = (field.name for field in fields(DocumentCounts))
    return DocumentCounts(**{name: sum(getattr(part, name) for part in parts) for name in names})
