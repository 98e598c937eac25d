"""Reading a job, or the jobs of a chain, again and again until they end."""

import time
from collections.abc import Callable, Sequence

from jobs.errors import TransientError
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, find_chain, find_job

POLL_S = 0.5  # between two reads of a job
POLLED_SHARE = 20  # of a young job it is this part of its age, so that the end of a small job is seen at once
SHORTEST_POLL_S = 0.05
PATIENCE_S = 120.0  # how long to wait for a database that does not answer


def follow(
    database: Database, job_id: int, update: Callable[[JobSummary], None], *, timeout_s: float | None = None
) -> JobSummary:
    """Read a job every POLL_S seconds, at first more often, until it has ended or the time is up; return the last
    summary.

    A database that does not answer (locked, restarted) is tried for PATIENCE_S seconds; then raises TransientError.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    started = answered_at = time.monotonic()
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
        now = time.monotonic()
        left = POLL_S if deadline is None else max(0.0, deadline - now)
        time.sleep(min(POLL_S, max(SHORTEST_POLL_S, (now - started) / POLLED_SHARE), left))


def follow_chain(
    database: Database, job: JobSummary, update: Callable[[JobSummary], None], *, timeout_s: float | None = None
) -> Sequence[JobSummary]:
    """Follow the stages of a job's chain, one after the other, or the job alone; the last summary of each. Those that
    had ended are not shown again."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    if job.chain is None:
        return [follow(database, job.job_id, update, timeout_s=timeout_s)]
    with database.reading() as connection:
        stages = find_chain(connection, job)
    last = []
    for stage in stages:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        last.append(stage if stage.has_ended else follow(database, stage.job_id, update, timeout_s=left))
    return last
