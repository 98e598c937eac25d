"""The head of the page of a job: its state in a sentence, its counts, what it was asked to do."""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobs.choices import CANCELLING, PAUSED
from jobs.formatting import count, counted, duration, figure, moment, percent
from jobs.routing.routes import models_in_words
from jobs.spec import OPTIONS, Task
from jobs.stage import FILTER, FilterSpec
from jobs.store.report.document_counts import NOT_OK
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.live_job import LiveJob
from jobs.store.schema.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A count of documents, or what came out."""

    name: str
    value: str
    note: str = ""
    status: str | None = None  # of the documents that it counts
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of what is known of the job."""

    name: str
    value: str
    is_code: bool = False


def state_sentence(job: LiveJob) -> str:
    """What somebody who has five seconds wants to know."""
    counts = job.counts_in_words
    match job.shown_state:
        case JobState.INGESTING:
            read = counted(job.documents, job.noun)
            return f"The corpus is being read, {read} so far; workers begin when it is complete."
        case JobState.FAILED:
            return f"The corpus was refused{job.because}."
        case JobState.CANCELLED:
            return f"Cancelled{_at(job)}: {counts}."
        case JobState.DONE:
            return f"{counts}."
        case "waiting":
            return f"It waits for a worker: {counts}."
        case "paused":
            return f"Paused{job.because}: {counts}."
        case "cancelling":
            return f"It is being cancelled: {counts}."
    if job.started_at is None and job.task != FILTER:
        return "The stage before has handed nothing on yet." if job.stage and job.stage > 1 else "No worker has begun."
    return f"{counts}."


def time_left(job: LiveJob) -> str:
    """`4 min 05 s to go`; nothing for a job that is not running."""
    if job.shown_state != JobState.RUNNING:
        return ""
    return f"{duration(job.eta_s)} to go" if job.eta_s is not None else "time left unknown"


def tiles(job: LiveJob) -> list[Tile]:
    """Counts of documents by how they ended, then tokens, speed and reuse. States without a document are left out,
    except those that every job has."""
    of_all = job.total_documents or 1
    found = [
        Tile(
            name="Ok",
            value=count(job.succeeded),
            note=f"of {counted(job.total_documents, job.noun)}",
            status="ok",
        )
    ]
    if job.waiting or not job.has_ended:
        found.append(Tile(name="Waiting", value=count(job.waiting), note=_shards(job), status="waiting"))
    for status in NOT_OK:
        if number := getattr(job, status):
            note = f"{percent(number / of_all)} of all"
            is_bad = status != "cancelled"
            found.append(Tile(name=status.capitalize(), value=count(number), note=note, status=status, is_bad=is_bad))
    if not job.unsuccessful:
        found.append(Tile(name="Not ok", value="0", note="failed, rejected or cancelled"))
    if job.skipped:
        note = "not kept, or without a result before" if job.task == FILTER else "without a result in the stage before"
        found.append(Tile(name="Skipped", value=count(job.skipped), note=note, status="skipped"))
    if job.task == FILTER:
        return found
    speed = figure(job.shown_tokens_per_s)
    note = "on average, without pauses" if job.recent_tokens_per_s is None else "over the last minute"
    found.append(Tile(name="Tokens/s", value=speed, note=note))
    found.append(Tile(name="Tokens", value=count(job.tokens), note=_tokens(job)))
    return [*found, *_reuse(job)]


def facts(job: JobSummary) -> list[Fact]:
    """What it was asked to do, and when it did it."""
    is_filter = job.task == FILTER  # it has no model, and no worker starts it
    models = "" if is_filter else models_in_words(job.model, job.model_revision, json.loads(job.options))
    started = moment(job.started_at) if job.started_at else "not yet"
    return [
        Fact("Task", job.task),
        Fact("Corpus", job.source, is_code=True),
        *([] if is_filter else [Fact("Model", models)]),
        *([] if job.order.is_default else [Fact("Providers", str(job.order))]),
        Fact("Options", ", ".join(options_given(job)) or "all at their defaults"),
        Fact("Queue and priority", f"{job.queue}, {job.priority}"),
        Fact("Submitted", moment(job.created_at)),
        Fact("Corpus read", _read(job)),
        *([] if is_filter else [Fact("Started", started)]),
        Fact("Ended", moment(job.finished_at) if job.finished_at else "not yet"),
        *([Fact("Took" if job.has_ended else "For", duration(job.elapsed_s))] if job.started_at else []),
    ]


def options_given(job: JobSummary) -> Iterator[str]:
    """The options that are not at their default: `beam_size 4`. Every option is in the page as JSON."""
    if job.task == FILTER:
        yield FilterSpec.restore(job.options).condition
        return
    values: dict[str, Any] = json.loads(job.options)
    defaults = {field.name: field.default for field in dataclasses.fields(OPTIONS[Task(job.task)])}
    values.pop("routes", None)  # the models say it
    for name, value in values.items():
        if value == [] and defaults.get(name) == ():  # as JSON has it
            continue
        if value != defaults.get(name) and str(value) != str(defaults.get(name)):
            yield f"{name} {_written(value)}"


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _at(job: JobSummary) -> str:
    return f" at {moment(job.finished_at)}" if job.finished_at else ""


def _shards(job: JobSummary) -> str:
    if job.recorded_state in (PAUSED, CANCELLING):
        return f"the job is {job.recorded_state}"
    return f"in {counted(job.shards_open, 'shard')} of {count(job.shards)}"


def _tokens(job: JobSummary) -> str:
    match job.task:
        case Task.TRANSLATE:
            return f"generated, of {count(job.source_tokens)} read"
        case Task.GENERATE:
            return f"generated, after {count(job.source_tokens)} of prompts"
        case Task.SCORE:
            return f"scored, after {count(job.source_tokens)} of sources" if job.source_tokens else "scored"
    return f"through the model, {count(job.target_tokens)} scored"


def _reuse(job: JobSummary) -> Iterator[Tile]:
    """What was taken from earlier jobs instead of being computed."""
    if job.task == Task.TRANSLATE and job.segments:
        share = percent(job.segments_reused / job.segments)
        yield Tile(name="Segments reused", value=count(job.segments_reused), note=f"{share} of {count(job.segments)}")
    elif job.task == Task.SCORE and job.succeeded:
        share = percent(job.documents_reused / job.succeeded)
        yield Tile(name="Scores reused", value=count(job.documents_reused), note=f"{share} of {count(job.succeeded)}")


def _read(job: JobSummary) -> str:
    if job.ingested_at is None:
        return "not to its end yet"
    return f"in {duration((job.ingested_at - job.created_at).total_seconds())}, {counted(job.documents, 'line')}"
