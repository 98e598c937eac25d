"""The command that most people run next with a job."""

from typing import TYPE_CHECKING

from jobs.choices import WAITING
from jobs.queues import GPU
from jobs.spec import Task

if TYPE_CHECKING:
    from jobs.store.report.job_summary import JobSummary


def next_command(job: "JobSummary") -> str:
    """The command that most people run next with a job in this state."""
    from jobs.store.schema.states import JobState

    if job.state == JobState.INGESTING:
        task = "" if job.task == Task.TRANSLATE else f" --task {job.task}"
        if job.chain is not None:
            return f"kvjobs submit {job.source}{task} --then ..."  # with the same stages
        return f"kvjobs submit {job.source}{task}"  # continues where it was interrupted
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
