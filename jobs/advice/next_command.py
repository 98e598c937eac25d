"""What to do next with a job: commands that work as they are written. What failed and would fail again is not retried.

Knows: the codes of errors, and what cures each. Does not know: databases, terminals, pages.
"""

import enum
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from jobs.addresses.address import is_hidden
from jobs.choices import WAITING
from jobs.corpus.corpus import STREAMS
from jobs.corpus.original import CorpusLayout, has_lines
from jobs.corpus.translatable.stored_reading import reading_of_files
from jobs.queues import GPU
from jobs.store.schema.states import DocumentStatus, JobState
from jobs.submit_command import StoredSubmit, submit_command

if TYPE_CHECKING:
    from jobs.store.report.failures import Failure
    from jobs.store.report.job_summary import JobSummary
    from jobs.store.report.live_job import LiveJob


@dataclass(frozen=True, slots=True)
class NextStep:
    """A command, and what it is for where the command alone does not say it."""

    command: str
    why: str = ""


class Cure(enum.Enum):
    """What helps documents without a result."""

    RETRY = enum.auto()  # the cause may pass
    TAKE_OUT = enum.auto()  # the lines themselves: they are corrected, or given to another model
    VERIFY = enum.auto()  # the model computes something wrong
    INSPECT = enum.auto()  # the model lacks something
    LIST = enum.auto()  # only the corpus has the lines


# By status and error code. "*": any other code, as of a version that is newer or older.
CURES: Mapping[tuple[str, str], tuple[Cure, str]] = {
    ("failed", "engine-error"): (Cure.RETRY, "once the cause above is mended"),
    ("failed", "unanswered"): (Cure.RETRY, "once a provider answers"),
    ("failed", "empty-answer"): (Cure.RETRY, "a chat model may answer another time"),
    ("failed", "refused"): (Cure.TAKE_OUT, "the chat model refuses them: submit them with another --model or provider"),
    ("failed", "too-long"): (
        Cure.TAKE_OUT,
        "a retry fails again: shorten them, or submit them with a --model that has more positions",
    ),
    ("failed", "empty-prompt"): (Cure.TAKE_OUT, "a retry fails again: there is nothing to continue"),
    ("failed", "chat-template"): (
        Cure.TAKE_OUT,
        "a retry fails again: change what the model's template refuses, and submit them",
    ),
    ("failed", "endless-pattern"): (Cure.TAKE_OUT, "a retry fails again: write --keep otherwise, and submit them"),
    ("failed", "bad-pair"): (Cure.TAKE_OUT, "a retry fails again: correct and submit them"),
    ("failed", "bad-payload"): (Cure.TAKE_OUT, "a retry fails again: correct and submit them"),
    ("failed", "non-finite"): (
        Cure.VERIFY,
        "a retry fails again: the model overflows; with the model in fp32 it may not",
    ),
    ("failed", "unscorable"): (
        Cure.INSPECT,
        "a retry fails again: add the model from its source once more, with --head full, and submit anew",
    ),
    ("failed", "*"): (Cure.RETRY, "once the cause above is mended"),
    ("quarantined", "*"): (
        Cure.TAKE_OUT,
        "each ends the process that works on it: look at them; if memory was short, kvjobs retry {job_id}",
    ),
    ("rejected", "bad-file"): (Cure.LIST, "correct these files, and submit the folder again"),
    ("rejected", "*"): (Cure.LIST, "correct these lines in the corpus, and submit it again"),
}


def next_steps(job: "LiveJob", failures: "Sequence[Failure]", stages: "Sequence[JobSummary]" = ()) -> list[NextStep]:
    """What most people do next with a job in this state, the most useful first; at least one step. `failures`: its
    documents without a result, by reason; `stages`: of its chain."""
    if job.state == JobState.INGESTING:
        why = f"reads the rest of the corpus, if no submit is reading it{_with_address(job)}"
        return [NextStep(submit_again(job, stages), why)]
    if job.state == JobState.FAILED:
        why = f"reads the corpus from the start{_with_address(job)}"
        again = [] if job.source in STREAMS else [NextStep(submit_again(job, stages), why)]
        return [*again, NextStep(f"kvjobs db prune {job.job_id}", "removes the job")]
    if job.shown_state == WAITING:
        return [NextStep("kvjobs worker --device cuda:0" if job.queue == GPU else "kvjobs worker")]
    if not job.has_ended:
        if not job.paused:
            closing = NextStep(f"kvjobs close {job.job_id}", "when no document is to come: until then it does not end")
            return [NextStep(f"kvjobs watch {job.job_id}"), *([closing] if job.is_open else [])]
        return [NextStep(f"kvjobs resume {job.job_id}", "once the reason above is mended" if job.reason else "")]
    cures = list(_cures(job, failures))
    results = _results(job, stages[0] if stages else job)
    rejected = [step for step, status in cures if status == DocumentStatus.REJECTED]
    others = [step for step, status in cures if status != DocumentStatus.REJECTED]
    return [*dict.fromkeys([*others, *results, *rejected])]


def submit_again(job: "JobSummary", stages: "Sequence[JobSummary]" = ()) -> str:
    """The command that continues to read the corpus of a job where that was interrupted. `stages`: of its chain."""
    first, *later = map(stored_submit, stages or (job,))
    return submit_command(first, *later) or f"kvjobs submit {shlex.quote(job.source)}"


def _with_address(job: "LiveJob") -> str:
    return "; put the whole address in, whose secrets are not stored" if is_hidden(job.source) else ""


def stored_submit(job: "JobSummary") -> StoredSubmit:
    """What decides the command that makes such a job again."""
    return StoredSubmit(
        task=job.task,
        model=job.model,
        model_revision=job.model_revision,
        options=job.options,
        providers=job.providers,
        source=job.source,
        reading=job.reading,
        priority=job.priority,
        queue=job.queue,
        reads=job.reads,
    )


def target_of_files(job: "JobSummary") -> str | None:
    """Where the files of a job go that come back: to one file with the suffix of its source, or to a folder. None for a
    job of another corpus or task."""
    how = reading_of_files(job.reading) if job.kind.is_between_languages else None
    if how is None:
        return None
    if not how.is_one:
        return f"job-{job.job_id}/"
    return shlex.quote(f"job-{job.job_id}{PurePath(how.name_of_one(job.source)).suffix}")


def _results(job: "LiveJob", first: "JobSummary") -> list[NextStep]:
    """`first`: of its chain, which has the files of all stages."""
    files = target_of_files(first)
    if job.chain is not None:
        of_all = NextStep(f"kvjobs export {job.chain} --chain -o job-{job.chain}.jsonl")
        return [of_all] if files is None else [NextStep(f"kvjobs export {job.chain} -o {files}"), of_all]
    if job.kind.is_scored:
        return [NextStep(f"kvjobs totals {job.job_id}")]
    return [NextStep(f"kvjobs export {job.job_id} -o {files or f'job-{job.job_id}.jsonl'}")]


def _cures(job: "LiveJob", failures: "Sequence[Failure]") -> Iterator[tuple[NextStep, str]]:
    """A step with the status of the documents that it is for."""
    if job.cancelled or job.state == JobState.CANCELLED:
        yield NextStep(f"kvjobs retry {job.job_id}", "continues the job"), DocumentStatus.CANCELLED
    found = [
        (*(CURES.get((failure.status, failure.code or "*")) or CURES[failure.status, "*"]), failure)
        for failure in failures
    ]
    # A retry comes last: documents that wait again are no longer found by their error.
    for cure, why, failure in sorted(found, key=lambda cured: cured[0] is Cure.RETRY):
        yield NextStep(_command(cure, job, failure), why.format(job_id=job.job_id)), failure.status


def _command(cure: Cure, job: "LiveJob", failure: "Failure") -> str:
    match cure:
        case Cure.RETRY:
            return f"kvjobs retry {job.job_id}"
        case Cure.VERIFY:
            return f"kvjobs models verify {shlex.quote(job.model)}"
        case Cure.INSPECT:
            return f"kvjobs models inspect {shlex.quote(job.model)}"
        case Cure.LIST:
            return f"kvjobs query --saved failed-documents -p job {job.job_id}"
    code = failure.code if failure.code and re.fullmatch(r"[a-z0-9-]+", failure.code) else None
    which = f"status = '{failure.status}'" + (f" and error_code = '{code}'" if code else "")
    suffix, form = "jsonl", ""
    if job.reading is not None and has_lines(job.reading):
        suffix, form = CorpusLayout.parse(job.reading).format.value, " --format original"
    return f'kvjobs export {job.job_id} --where "{which}"{form} -o job-{job.job_id}-{code or failure.status}.{suffix}'
