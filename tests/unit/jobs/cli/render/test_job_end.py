"""The words about a job that ended."""

from dataclasses import replace

from jobs.cli.render.job_end import end_message
from jobs.cli.render.live_progress import progress_text
from jobs.store.report.job_providers import JobProviders
from jobs.store.report.timings.speed import RecentSpeed
from tests.summaries import READ_AT, RUNNING_JOB


def test_a_job_that_no_worker_began_has_no_duration() -> None:
    """Every line of its corpus was rejected, or was done in a job before."""
    began = replace(RUNNING_JOB, state="done", finished_at=READ_AT)
    answers = JobProviders(providers=(), changes=(), num_changes=0, unanswered=0)

    def durations(job: object) -> int:
        ending, progress = end_message(job, None, None, None, answers), progress_text(job, RecentSpeed())  # type: ignore[arg-type]
        return (ending.partition("\n")[0] + progress).count(" in ")

    assert (durations(began), durations(replace(began, started_at=None))) == (2, 0)
