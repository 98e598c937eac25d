"""The command that most people run next with a job."""

from typing import TYPE_CHECKING

from jobs.choices import WAITING
from jobs.queues import GPU
from jobs.spec import Task

if TYPE_CHECKING:
    from jobs.store.report.job_summary import JobSummary
    from jobs.store.report.live_job import LiveJob


def next_command(job: "LiveJob") -> str:
    """The command that most people run next with a job in this state."""
    from jobs.store.schema.states import JobState

    if job.state == JobState.INGESTING:
        return submit_again(job)
    if job.state == JobState.FAILED:
        return f"kvjobs db prune {job.job_id}"
    if job.shown_state == WAITING:
        return "kvjobs worker --device cuda:0" if job.queue == GPU else "kvjobs worker"
    if not job.has_ended:
        return f"kvjobs {'resume' if job.paused else 'watch'} {job.job_id}"
    if job.failed + job.quarantined + job.cancelled or job.state == JobState.CANCELLED:
        return f"kvjobs retry {job.job_id}"
    if job.chain is not None:
        return f"kvjobs export {job.chain} --chain -o FILE"
    return f"kvjobs totals {job.job_id}" if job.task == Task.SCORE else f"kvjobs export {job.job_id} -o FILE"


def submit_again(job: "JobSummary") -> str:
    """The command that continues to read the corpus of a job where that was interrupted."""
    task = "" if job.task == Task.TRANSLATE else f" --task {job.task}"
    then = "" if job.chain is None else " --then ..."  # with the same stages
    return f"kvjobs submit {job.source}{task}{then}"
