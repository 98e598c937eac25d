"""What an action on a job has changed, and what to do next: for the command line and for the dashboard."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobs.advice.next_command import submit_again
from jobs.text.formatting import counted

if TYPE_CHECKING:
    from jobs.control.actions import Performed
    from jobs.store.report.job_summary import JobSummary


def messages(performed: "Performed") -> Iterator[str]:
    """Sentences: first the change, then what to do next."""
    from jobs.control.actions import Action

    match performed.action:
        case Action.PAUSE:
            job = performed.after
            yield f"{_named(job)} is paused. To resume it: kvjobs resume {job.job_id}"
        case Action.RESUME:
            yield _resumed(performed)
        case Action.CANCEL:
            yield from _cancelled(performed)
        case Action.RETRY:
            yield _retried(performed)
        case Action.PRIORITY:
            job, was = performed.after, performed.before.priority
            yield f"{_named(job)} has the priority {job.priority} now (before: {was}); higher goes first."
        case Action.CLOSE:
            yield _closed(performed)


def _resumed(performed: "Performed") -> str:
    job = performed.after
    if job.cancel_requested_at:
        return f"{_named(job)} is being cancelled. To continue it: kvjobs retry {job.job_id}"
    change = "is resumed" if performed.before.paused else "was not paused"
    return f"{_named(job)} {change}. To follow it: kvjobs watch {job.job_id}"


def _cancelled(performed: "Performed") -> Iterator[str]:
    job = performed.after
    cancelled = counted(performed.documents, "document")
    yield f"{cancelled} of {_named_in_sentence(job)} cancelled; {counted(job.succeeded, 'result')} kept."
    if job.has_ended:
        yield f"To export them: kvjobs export {job.job_id} --only ok -o FILE"
        yield f"To continue the job: kvjobs retry {job.job_id}"
    else:
        yield f"Workers are still finishing their batches. To wait for them: kvjobs wait {job.job_id}"


def _closed(performed: "Performed") -> str:
    job = performed.after
    change = "is closed" if performed.before.is_open else "was closed before"
    if job.has_ended:
        return f"{_named(job)} {change}, and is {job.state}: {job.counts_in_words}."
    left = counted(job.waiting, "waiting document")
    return f"{_named(job)} {change}; it ends with its {left}. To wait for that: kvjobs wait {job.job_id}"


def _retried(performed: "Performed") -> str:
    from jobs.store.schema.states import JobState

    was, job, again = performed.before, performed.after, performed.documents
    if job.state == JobState.INGESTING:
        return f"{_named(job)} continues. To read the rest of its corpus: {submit_again(job)}"
    if again or was.state != job.state:
        documents = counted(again, "document")
        return f"{documents} of {_named_in_sentence(job)} will run again. To follow it: kvjobs watch {job.job_id}"
    return f"{_named(job)} has no failed, quarantined or cancelled document; nothing changed."


def _named(job: "JobSummary") -> str:
    """`Job 7`, or `Job 7 with its chain` if the action changed a whole chain."""
    return f"Job {job.label}" + (" with its chain" if job.chain is not None else "")


def _named_in_sentence(job: "JobSummary") -> str:
    return f"j{_named(job)[1:]}"
