"""What page and terminal both say of a job: facts, which they only draw.

Knows: a job at a moment, and the words of its task. Does not know: databases, terminals, HTML.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.choices import CANCELLING, PAUSED
from jobs.routing.routes import models_in_words
from jobs.stage import FILTER
from jobs.store.report.document_counts import NOT_OK
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.live_job import LiveJob
from jobs.tasks.kinds import OPTIONS
from jobs.tasks.task import Task
from jobs.text.formatting import count, counted, duration, percent

DEFAULT = "default"  # the remark of an option with the value that it has where none is given


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of what terminal and page say about a job: a label, a value, and a remark."""

    label: str
    value: Any  # a text, a number, a moment, or facts of their own; None: there is none yet
    unit: str = ""  # of a number
    remark: str = ""  # shown behind the value, or without one
    whole: int = 0  # of a number that is a part: of how many


def asked(job: JobSummary) -> Iterator[Fact]:
    """What the job was asked to do, and when it ran. A filter has no model, and no worker starts it."""
    options, has_model = json.loads(job.options), job.kind.has_model
    yield Fact("task", job.task)
    yield Fact("corpus", job.source)
    if has_model:
        yield Fact("model", models_in_words(job.model, job.model_revision, options))
    if not job.order.is_default:
        yield Fact("providers", str(job.order))
    yield Fact("options", [*_options(job.task, options)])
    yield Fact("queue and priority", job.queue, remark=str(job.priority))
    if job.owner:
        yield Fact("owner", job.owner)
    yield Fact("opened" if job.was_opened else "submitted", job.created_at)
    if job.was_opened:
        yield Fact("closed", job.closed_at, remark="not yet: documents may be appended" if job.is_open else "")
    elif job.ingested_at is None:
        yield Fact("corpus read", None, remark="not to its end yet")
    else:
        read_s = (job.ingested_at - job.created_at).total_seconds()
        yield Fact("corpus read", f"in {duration(read_s)}", remark=counted(job.documents, "line"))
    if has_model:
        yield Fact("started", job.started_at)
    yield Fact("ended", job.finished_at)
    if job.started_at:
        yield Fact("took" if job.has_ended else "for", job.elapsed_s, "s")


def _options(task: str, values: Mapping[str, Any]) -> Iterator[Fact]:
    if task == FILTER:
        defaults = {**values, "condition": None}  # which says what the others mean
    else:
        defaults = {field.name: field.default for field in dataclasses.fields(OPTIONS[Task(task)])}
    for name, value in values.items():
        default = [] if defaults.get(name) == () else defaults.get(name)  # as JSON has it
        if name != "routes":  # the models say it
            yield Fact(name, value, remark=DEFAULT if value == default or str(value) == str(default) else "")


def numbers(job: LiveJob) -> Iterator[Fact]:
    """How many documents are in each state that occurs; then tokens, speed and reuse."""
    yield Fact("ok", job.succeeded, remark=f"of {counted(job.total_documents, job.noun)}")
    if job.counts.waiting or not job.has_ended:
        where = f"in {counted(job.shards_open, 'shard')} of {count(job.shards)}"
        if job.recorded_state in (PAUSED, CANCELLING):
            where = f"the job is {job.recorded_state}"
        elif before := job.counts.waiting - job.waiting:
            where = f"{count(job.waiting)} {where}, {count(before)} in the stage before"
        yield Fact("waiting", job.counts.waiting, remark=where)
    for status in NOT_OK:
        if number := getattr(job, status):
            yield Fact(status, number, remark=f"{percent(number / (job.total_documents or 1))} of all")
    if not job.unsuccessful:
        yield Fact("not ok", 0, remark="failed, rejected or cancelled")
    if job.skipped:
        why = "without a result in the stage before" if job.kind.has_model else "not kept, or without a result before"
        yield Fact("skipped", job.skipped, remark=why)
    if job.kind.has_model:
        of_when = "on average, without pauses" if job.recent_tokens_per_s is None else "over the last minute"
        yield Fact("tokens/s", job.shown_tokens_per_s, remark=of_when)
        yield tokens_of(job)
    if (reused := reused_of(job)) and reused.whole:
        yield dataclasses.replace(reused, remark=f"{percent(reused.value / reused.whole)} of {count(reused.whole)}")


def tokens_of(job: JobSummary, *, in_line: bool = False) -> Fact:
    """The tokens by which the speed is measured. The remark explains the number; with `in_line` it contains it."""
    kind = job.kind
    line, remark = kind.made_words if kind.made_words and not job.source_tokens else kind.token_words
    words = line if in_line else remark
    numbers = {"read": count(job.source_tokens), "made": count(job.target_tokens)}
    return Fact("tokens", job.tokens, remark=words.format(**numbers))


def reused_of(job: JobSummary) -> Fact | None:
    """What was taken from earlier jobs instead of being computed; None for a task that takes nothing."""
    counters = {field.counter for field in job.kind.fields}
    for counter, label, whole, noun in (
        ("segments_reused", "segments reused", job.segments, "segment"),
        ("documents_reused", "scores reused", job.succeeded, "document"),
    ):
        if counter in counters:
            return Fact(label, getattr(job, counter), remark=f"of {counted(whole, noun)}", whole=whole)
    return None
