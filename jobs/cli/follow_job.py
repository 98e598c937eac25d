"""Reading a job again and again until it ends."""

import time
from collections.abc import Callable

from jobs.errors import TransientError
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, find_job

POLL_S = 0.5
PATIENCE_S = 120.0  # how long to wait for a database that does not answer


def follow(
    database: Database, job_id: int, update: Callable[[JobSummary], None], *, timeout_s: float | None = None
) -> JobSummary:
    """Read a job every POLL_S seconds until it has ended or the time is up; return the last summary.

    A database that does not answer (locked, restarted) is tried for PATIENCE_S seconds; then raises TransientError.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    answered_at = time.monotonic()
    while True:
        try:
            with database.reading() as connection:
                job = find_job(connection, str(job_id))
        except TransientError:
            now = time.monotonic()
            if now - answered_at > PATIENCE_S or (deadline is not None and now >= deadline):
                raise
            time.sleep(POLL_S)
            continue
        answered_at = time.monotonic()
        update(job)
        if job.has_ended or (deadline is not None and time.monotonic() >= deadline):
            return job
        left = POLL_S if deadline is None else max(0.0, deadline - time.monotonic())
        time.sleep(min(POLL_S, left))
