"""What a submit returns. (`jobs.submission.submit`, which makes it, loads the database.)"""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.store.schema.states import JobState


class PriorState(enum.StrEnum):
    """How far the job was before this submit."""

    NEW = "new"
    RESUMED = "resumed"  # an ingest that was killed, or that another submit is at; now it is complete
    RUNNING = "running"
    COMPLETE = "complete"
    CANCELLED = "cancelled"  # or about to be


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """The job that a submit made or found."""

    job_id: int
    name: str | None  # a job that had one keeps it
    state: "JobState"
    prior_state: PriorState
    documents: int  # rejected ones too
    rejected: int
    shards: int
    estimated_tokens: int
    without_id: int  # of the documents that this submit read; the number of their line stands for it
