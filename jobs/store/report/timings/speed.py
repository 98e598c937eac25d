"""The speed of a job over the last minute, and of the latest job that a model has finished."""

from collections import deque

from sqlalchemy import Connection, select

from jobs.store.report.job_summary import JobSummary, find_job
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Job


class RecentSpeed:
    """Speed over the last minute, from successive summaries of a job."""

    WINDOW_S = 60.0

    def __init__(self) -> None:
        self._samples: deque[tuple[float, JobSummary]] = deque()

    def add(self, summary: JobSummary, at: float) -> None:
        """Add a summary; `at` is when it was read, by the caller's monotonic clock."""
        self._samples.append((at, summary))
        # The oldest sample stays until the one after it is a whole window old.
        while len(self._samples) > 2 and at - self._samples[1][0] >= self.WINDOW_S:
            self._samples.popleft()

    @property
    def tokens_per_s(self) -> float | None:
        return self._rate("tokens")

    @property
    def eta_s(self) -> float | None:
        """Seconds that remain at this speed; None while no document ends."""
        rate = self._rate("estimated_done")
        return self._samples[-1][1].estimated_left / rate if rate else None

    def _rate(self, counter: str) -> float | None:
        if len(self._samples) < 2:
            return None
        (start, first), (end, last) = self._samples[0], self._samples[-1]
        gained = getattr(last, counter) - getattr(first, counter)
        return max(0.0, gained / (end - start)) if end > start else None


def past_speed(connection: Connection, model_revision: str, task: str) -> float | None:
    """Estimated tokens of documents per second, of the latest job of this task and model revision that is done; None
    where there is none."""
    latest = (
        select(Job.id)
        .where(
            Job.model_revision == model_revision,
            Job.task == task,
            Job.state == JobState.DONE,
            Job.started_at.is_not(None),
            Job.closed_at.is_(None),  # an open job also waited for documents
        )
        .order_by(Job.id.desc())
        .limit(1)
    )
    job_id = connection.execute(latest).scalar()
    if job_id is None:
        return None
    job = find_job(connection, str(job_id))
    return job.estimated_done / job.elapsed_s if job.elapsed_s and job.estimated_done else None
