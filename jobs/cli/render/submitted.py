"""What `kvjobs submit` says about the job that it made or found."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobs.submission.submitted_job import PriorState, SubmittedJob
from jobs.text.formatting import counted

if TYPE_CHECKING:
    from jobs.store.report.job_summary import JobSummary


def describe_submitted(
    submitted: SubmittedJob, job: "JobSummary", *, asked_name: str | None, stays_paused: bool
) -> Iterator[str]:
    """The messages, in order."""
    yield _first_sentence(submitted, job, stays_paused)
    yield from submitted.notes(asked_name)


def describe_stages(chain: "Sequence[JobSummary]") -> str:
    """`Stages, one chain: job 7 translate (opus), job 8 score (gpt2), job 9 filter.`"""
    stages = (
        f"job {stage.job_id} {stage.task}" + (f" ({stage.model})" if stage.kind.has_model else "") for stage in chain
    )
    return f"Stages, one chain: {', '.join(stages)}. Of all stages: kvjobs export {chain[0].job_id} --chain"


def _first_sentence(submitted: SubmittedJob, job: "JobSummary", stays_paused: bool) -> str:
    label = f"Job {submitted.job_id}" + (f" ({submitted.name})" if submitted.name else "")
    size = counted(submitted.documents, "document")
    if submitted.rejected:
        share = "all" if submitted.rejected == submitted.documents else f"{submitted.rejected:,}"
        size += f", {share} of them rejected (kvjobs show {submitted.job_id} says why)"
    match submitted.prior_state:
        case PriorState.NEW:
            return f"{label}: {size}."
        case PriorState.RESUMED:
            return f"{label}: {size}; reading continued where it was interrupted."
        case PriorState.RUNNING:
            state = f"is paused{job.because}" if stays_paused else "is running"
        case _:
            state = "is done"
    return f"{label}: {job.counts_in_words}; it was submitted before and {state}. (--again makes a new job.)"
