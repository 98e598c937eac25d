"""What a submit returns. (`jobs.submission.submit`, which makes it, loads the database.)"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.text.formatting import counted

if TYPE_CHECKING:
    from jobs.store.schema.states import JobState


class PriorState(enum.StrEnum):
    """How far the job was before this submit."""

    NEW = "new"
    RESUMED = "resumed"  # its ingest was incomplete: killed, or done by another submit at the same time
    RUNNING = "running"
    COMPLETE = "complete"
    CANCELLED = "cancelled"  # or its cancel was requested


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """The job that a submit has made or found."""

    job_id: int
    name: str | None  # a job that had one before keeps it
    state: "JobState"
    prior_state: PriorState
    documents: int  # rejected ones included
    rejected: int
    shards: int
    estimated_tokens: int
    without_id: int  # documents read by this submit without an id of the corpus; their id is the line number

    def notes(self, asked_name: str | None) -> Iterator[str]:
        """Sentences about what was not done as asked."""
        if asked_name is not None and asked_name != self.name:
            yield f"The job keeps its name {self.name!r}; it was not renamed to {asked_name!r}."
        if 0 < self.without_id < self.documents - self.rejected:
            yield f"{counted(self.without_id, 'document')} without an id: the line number is used instead."
