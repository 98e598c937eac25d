"""The head of the page of a job: its state in a sentence, its counts, what it was asked to do."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from jobs.facts.job import DEFAULT, Fact, asked, numbers
from jobs.store.report.document_counts import NOT_OK, OUTCOMES
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.live_job import LiveJob
from jobs.store.schema.states import JobState
from jobs.text.formatting import count, counted, duration, figure, moment, visible


def state_sentence(job: LiveJob) -> str:
    """The state of the job and what is wrong or comes next, in a sentence."""
    counts = job.counts_in_words
    match job.shown_state:
        case JobState.INGESTING:
            read = counted(job.documents, job.noun)
            return f"The corpus is being read, {read} so far; workers begin when it is complete."
        case JobState.FAILED:
            return f"The corpus was refused{job.because}."
        case JobState.CANCELLED:
            at = f" at {moment(job.finished_at)}" if job.finished_at else ""
            return f"Cancelled{at}: {counts}."
        case JobState.DONE:
            return f"{counts}."
        case "waiting":
            return f"It waits for a worker: {counts}."
        case "paused":
            return f"Paused{job.because}: {counts}."
        case "cancelling":
            return f"It is being cancelled: {counts}."
        case "awaiting":
            return f"It is open and waits for documents: {counts}."
    if job.started_at is None and job.kind.has_model:
        return "The stage before has handed nothing on yet." if job.stage and job.stage > 1 else "No worker has begun."
    return f"It is open, and its total grows: {counts}." if job.is_open else f"{counts}."


def time_left(job: LiveJob) -> str:
    """`4 min 05 s to go`; nothing for a job that is not running, or open."""
    if job.is_open or job.shown_state != JobState.RUNNING:
        return ""
    return f"{duration(job.eta_s)} to go" if job.eta_s is not None else "time left unknown"


def tiles(job: LiveJob) -> list[dict[str, Any]]:
    """The tiles with the numbers of the job; numbers of documents link to the list of these documents."""
    return [
        {
            "name": fact.label.capitalize(),
            "value": count(fact.value) if isinstance(fact.value, int) else figure(fact.value),
            "note": fact.remark,
            "status": fact.label if fact.label in OUTCOMES else None,
            "is_bad": fact.label in NOT_OK and fact.label != "cancelled",
        }
        for fact in numbers(job)
    ]


def lines(job: JobSummary, metadata: str | None = None) -> list[dict[str, Any]]:
    """The facts about what the job was asked to do, and when it ran. `metadata`: of its batch, a JSON object."""
    shown = [
        {"name": fact.label.capitalize(), "value": _drawn(fact), "is_code": fact.label == "corpus"}
        for fact in asked(job)
    ]
    values = json.loads(metadata) if metadata else {}
    about = ", ".join(f"{name}: {value}" for name, value in values.items())
    return [*shown, {"name": "Metadata", "value": visible(about), "is_code": False}] if values else shown


def _drawn(fact: Fact) -> str:
    value = fact.value
    if isinstance(value, list):
        return ", ".join(options_given(value)) or "all at their defaults"
    text = duration(value) if fact.unit == "s" else moment(value) if isinstance(value, datetime) else value
    return ", ".join(part for part in (text, fact.remark) if part) or "not yet"


def options_given(options: Sequence[Fact]) -> Iterator[str]:
    """The options that are not at their default: `beam_size 4`; of a filter its condition. The page as JSON has every
    option."""
    for option in options:
        if option.remark != DEFAULT:
            yield option.value if option.label == "condition" else f"{option.label} {_written(option.value)}"


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
