"""What a client asks of its jobs' home: the database of this machine's settings, or a server over HTTP.

Jobs, documents and models are plain objects of JSON, the same from both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kvjobs.rows import Rows

Values = Mapping[str, Any]  # an object of JSON


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job that a submit has made or found."""

    job: dict[str, Any]  # as `Job.info`
    prior_state: str  # new | resumed | running | complete
    notes: Sequence[str]  # sentences for the user


class Backend(Protocol):
    """Raises the errors of `jobs.errors`. Threads may share it."""

    where: str  # for messages: an address without secrets
    spool: Path  # the folder of temporary files
    shortest_poll_s: float  # between two looks at a job that has just begun

    def submit(self, rows: Rows, options: Values) -> Submitted: ...

    def dry_run(self, rows: Rows, options: Values) -> dict[str, Any]: ...

    def open_job(self, options: Values) -> Submitted: ...

    def append(self, job_id: int, documents: Sequence[Values]) -> list[dict[str, Any]]:
        """What became of each document: its `id`, and `state`: added, present (it was sent before), or refused with
        `code` and `reason`."""
        ...

    def outcomes(self, job_id: int, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The records of those of these documents that have ended, by id."""
        ...

    def ended_documents(self, job_id: int) -> Iterator[bytes]:
        """The line of JSON of each document of a job as it ends, until the job has ended."""
        ...

    def job(self, reference: str) -> dict[str, Any]: ...

    def may_have_ended(self, job_id: int) -> bool:
        """Whether a look at the job may find that it has ended; False where that can be told at less cost."""
        ...

    def jobs(self, states: Sequence[str], limit: int) -> list[dict[str, Any]]: ...

    def act(self, job_id: int, action: str, *, reason: str | None, priority: int | None) -> dict[str, Any]:
        """The job after the action."""
        ...

    def results(self, job_id: int, options: Values) -> Iterable[bytes]:
        """The bytes of an export, piece by piece. `options`: as `ResultOptions.read` takes them."""
        ...

    def files(self, job_id: int) -> list[dict[str, Any]]:
        """The files of a job that come back translated, as `ListedFile.as_object` has them."""
        ...

    def models(self) -> list[dict[str, Any]]: ...

    def see_to_worker(self, job_id: int) -> str:
        """See that a worker serves the job, where this machine can start one; why the job waits, or nothing. To be
        called often while somebody waits. Raises KvjobsError where that worker failed."""
        ...

    def close(self) -> None: ...
