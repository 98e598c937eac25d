"""What a submit returns. (`jobs.submission.submit`, which makes it, loads the database.)"""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
