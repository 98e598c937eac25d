"""What a submit found and made, as it is told. (What does it: `jobs.submission.submit`, which needs the database.)"""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.errors import SpecError

if TYPE_CHECKING:
    from jobs.store.schema.states import JobState

MAX_NAME = 100


class Already(enum.StrEnum):
    """What there was of the job before this submit."""

    NEW = "new"
    RESUMED = "resumed"  # an ingest that was killed, or that another submit is at; now it is complete
    RUNNING = "running"
    COMPLETE = "complete"
    CANCELLED = "cancelled"  # or about to be


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The job that a submit made or found."""

    job_id: int
    name: str | None  # a job that had one keeps it
    state: "JobState"
    already: Already
    documents: int  # rejected ones too
    rejected: int
    shards: int
    estimated_tokens: int
    without_id: int  # of the documents that this submit read; the number of their line stands for it


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestProgress:
    """How far a submit has come, told whenever a batch is safe in the database, and now and then while none is."""

    job_id: int | None  # none before the first document is found
    documents: int
    rejected: int
    lines: int  # of the file, read so far; blank ones too
    bytes_read: int
    num_bytes: int  # of the whole corpus as it is stored


def check_name(name: str | None) -> None:
    """Raise SpecError for a name that could not be used in place of a job's number."""
    if name is None:
        return
    if not name or not name.isprintable() or name != name.strip() or len(name) > MAX_NAME:
        raise SpecError(f"the name {name[:MAX_NAME]!r} cannot be used; give 1 to {MAX_NAME} printable characters")
    if name.isdecimal() or name == "last" or name.startswith("-"):
        raise SpecError(
            f"the name {name!r} would be taken for something else (a job's number, the last job, an option); "
            "choose another with --name"
        )
