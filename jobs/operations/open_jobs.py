"""Jobs that stay open, for programs: opened from plain values, filled, read as their documents end."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jobs.dispatch.append_hints import AppendHints
from jobs.documents import AppendState
from jobs.errors import SpecError
from jobs.export.running_results import new_results, results_of_ids
from jobs.operations.plan import Admissions, plan_open
from jobs.operations.submit import notified
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.report.job_summary import find_job
from jobs.submission.job_options import SubmitRequest
from jobs.submission.open_job import append, find_open_job, open_job

LOOK_EVERY_S = 0.5  # for documents that have ended


class OpenJobs:
    """The open jobs of a database. Threads may share it. `wake` is called after an append."""

    def __init__(self, database: Database, settings: Settings, wake: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._settings = settings
        self._wake = wake
        self._hints = AppendHints.of(database, settings)

    def open(
        self,
        request: SubmitRequest,
        *,
        tell: Callable[[str], None],
        admissions: Admissions | None = None,
        owner: str | None = None,
        max_open: int | None = None,
    ) -> tuple[int, bool]:
        """The number of the open job of a request, and whether it is new. `owner`: who opens it, and may have
        `max_open` jobs that have not ended. Raises what `plan_open` and
        `jobs.submission.open_job.open_job` raise, and SpecError where the job of the key is closed."""
        plan = plan_open(request, self._settings, tell=tell, admissions=admissions)
        job = request.job
        opened, is_new = open_job(
            self._database,
            plan.corpus,
            plan.spec,
            name=job.name,
            priority=job.priority,
            queue=job.queue,
            key=job.key,
            owner=owner,
            max_open=max_open,
            notify=notified(job.notify, self._settings, owner),
        )
        if not opened.is_open:
            raise SpecError(
                f"the job of the key {job.key!r}, {opened.job_id}, is closed and takes no more documents; choose "
                "another key"
            )
        return opened.job_id, is_new

    def append(self, job_id: int, documents: Sequence[Mapping[str, Any] | bytes]) -> list[dict[str, Any]]:
        """Append documents, and wake workers: what came of each, as objects of JSON with `id`, `position`, `state`
        (added, present: it was sent before, refused), `code` and `reason`. Raises NotFoundError, and SpecError for a
        job that is not open."""
        found = append(self._database, find_open_job(self._database, job_id), documents)
        if any(appended.state is AppendState.ADDED for appended in found):
            self._wake()
            self._hints.wake()
        return [
            {
                "id": appended.external_id,
                "position": appended.position,
                "state": appended.state.value,
                "code": appended.code,
                "reason": appended.reason,
            }
            for appended in found
        ]

    def outcomes(self, job_id: int, ids: Sequence[str]) -> dict[str, bytes]:
        """The line of JSON of each document with one of these ids, by id; its `status` is waiting where it has not
        ended. Raises NotFoundError."""
        with self._database.reading() as connection:
            job = find_job(connection, str(job_id))
        return results_of_ids(self._database, job, ids)

    def follow(self, job_id: int, is_over: Callable[[], bool] = lambda: False) -> Iterator[list[bytes]]:
        """The lines of JSON of documents as they end, each once, until the job has ended or `is_over`; an empty list
        after each look that finds none. Raises NotFoundError."""
        seen = ""
        while not is_over():
            with self._database.reading() as connection:
                job = find_job(connection, str(job_id))
            found = new_results(self._database, job, seen)
            seen = found.place
            yield found.lines
            if found.is_last:
                return
            if not found.lines:
                time.sleep(LOOK_EVERY_S)

    def close(self) -> None:
        """Send no more hints."""
        self._hints.close()
