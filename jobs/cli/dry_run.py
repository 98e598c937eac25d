"""`kvjobs submit --dry-run`: what would be done, as lines for a person."""

from collections.abc import Iterator
from typing import Any

from jobs.cli.task_words import WORDS
from jobs.cli.wording import count, counted
from jobs.spec import JobSpec, ScoreOptions, Task


def describe(rehearsal: Any, spec: JobSpec, tokens_per_s: float | None) -> Iterator[str]:
    """A `worker.rehearsal.Rehearsal` in words; the estimate is from earlier jobs with the same model."""
    preview = rehearsal.preview
    documents = "queries  " if spec.task is Task.RERANK else "documents"
    yield f"{documents}   {count(rehearsal.num_documents)}" + (
        f", and {count(rehearsal.num_rejected)} rejected lines" if rehearsal.num_rejected else ""
    )
    yield from _sequences(preview, spec)
    widest = max((_number(bucket) for bucket in preview.histogram), default=1)
    for bucket in preview.histogram:
        bar = "#" * max(1, round(40 * _number(bucket) / widest))
        yield f"  up to {bucket.max_tokens:>4} tokens {_number(bucket):>10,}  {bar}"
    yield f"shards      {count(rehearsal.num_shards)}"
    if tokens_per_s:
        minutes = rehearsal.estimated_tokens / tokens_per_s / 60
        yield f"estimate    {minutes:,.1f} minutes at the speed of the last job that was {_done(spec)} with this model"
    else:
        yield f"estimate    none: no job was {_done(spec)} with this model here yet"
    for rejected in rehearsal.rejected:
        yield f"rejected    line {rejected.line}: {rejected.reason}"
    if rehearsal.num_rejected > len(rehearsal.rejected):
        yield f"            ... and {counted(rehearsal.num_rejected - len(rehearsal.rejected), 'line')} more"


def _sequences(preview: Any, spec: JobSpec) -> Iterator[str]:
    if spec.task is Task.TRANSLATE:
        yield f"segments    {count(preview.num_segments)} to translate, {count(preview.num_passed_through)} to copy" + (
            f", {count(preview.num_split)} longer than the model's positions (translated in pieces)"
            if preview.num_split
            else ""
        )
        yield f"tokens      {count(preview.num_tokens)}, the longest segment {count(preview.longest)}"
        return
    what, longer = "documents", f"read in windows: --window {getattr(spec.options, 'window', '')}"
    if spec.task is Task.RERANK:
        what, longer = "candidates", "cut to fit"
        yield f"candidates  {count(preview.num_sequences)}, each read with its query"
    elif isinstance(spec.options, ScoreOptions) and spec.options.pairs:
        what, longer = "sides", "cut to fit"
    if preview.num_longer:
        yield f"too long    {count(preview.num_longer)} {what} for the model's positions ({longer})"
    yield f"tokens      {count(preview.num_tokens)}, the longest sequence {count(preview.longest)}"


def _number(bucket: Any) -> int:
    return int(bucket.num_segments)


def _done(spec: JobSpec) -> str:
    return WORDS[spec.task].done
