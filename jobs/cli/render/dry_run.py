"""`kvjobs submit --dry-run`: what would be done, as lines for a person."""

from collections.abc import Iterator
from typing import Any

from jobs.cli.render.formatting import count, counted
from jobs.cli.render.task_words import WORDS
from jobs.spec import JobSpec, ScoreOptions, Task


def describe(dry_run: Any, spec: JobSpec, tokens_per_s: float | None) -> Iterator[str]:
    """A `worker.model_tools.dry_run.DryRun` in words; the estimate is from earlier jobs with the same model."""
    preview = dry_run.preview
    documents = "queries  " if spec.task is Task.RERANK else "documents"
    yield f"{documents}   {count(dry_run.num_documents)}" + (
        f", and {counted(dry_run.num_rejected, 'rejected line')}" if dry_run.num_rejected else ""
    )
    if 0 < dry_run.num_without_id < dry_run.num_documents:
        without = counted(dry_run.num_without_id, "document")
        yield f"ids         {without} without one: the number of the line stands for it"
    yield from _sequences(preview, spec)
    widest = max((_number(bucket) for bucket in preview.histogram), default=1)
    for bucket in preview.histogram:
        bar = "#" * max(1, round(40 * _number(bucket) / widest))
        yield f"  up to {bucket.max_tokens:>4} tokens {_number(bucket):>10,}  {bar}"
    yield f"shards      {count(dry_run.num_shards)}"
    if tokens_per_s:
        minutes = dry_run.estimated_tokens / tokens_per_s / 60
        yield f"estimate    {minutes:,.1f} minutes at the speed of the last job that was {_done(spec)} with this model"
    else:
        yield f"estimate    none: no job was {_done(spec)} with this model here yet"
    for rejected in dry_run.rejected:
        yield f"rejected    line {rejected.line}: {rejected.reason}"
    if dry_run.num_rejected > len(dry_run.rejected):
        yield f"            ... and {counted(dry_run.num_rejected - len(dry_run.rejected), 'line')} more"


def as_record(dry_run: Any, spec: JobSpec, tokens_per_s: float | None) -> dict[str, Any]:
    """The same for a program."""
    of_task = ("num_segments", "num_passed_through", "num_split", "num_sequences", "num_longer")
    preview = dry_run.preview
    return {
        "dry_run": True,
        "task": spec.task,
        "model": spec.model,
        "documents": dry_run.num_documents + dry_run.num_rejected,
        "rejected": dry_run.num_rejected,
        "rejected_lines": [{"line": one.line, "error": one.reason} for one in dry_run.rejected],  # the first of them
        "without_id": dry_run.num_without_id,  # of those that are not rejected
        "shards": dry_run.num_shards,
        "tokens": preview.num_tokens,
        "longest": preview.longest,
        "estimated_tokens": dry_run.estimated_tokens,
        "estimated_s": dry_run.estimated_tokens / tokens_per_s if tokens_per_s else None,
        **{name.removeprefix("num_"): getattr(preview, name) for name in of_task if hasattr(preview, name)},
        "histogram": [{"max_tokens": bucket.max_tokens, "number": _number(bucket)} for bucket in preview.histogram],
        "exit_code": 0,
    }


def _sequences(preview: Any, spec: JobSpec) -> Iterator[str]:
    if spec.task is Task.TRANSLATE:
        yield f"segments    {count(preview.num_segments)} to translate, {count(preview.num_passed_through)} to copy" + (
            f", {count(preview.num_split)} longer than the model's positions (translated in pieces)"
            if preview.num_split
            else ""
        )
        yield f"tokens      {count(preview.num_tokens)}, the longest segment {count(preview.longest)}"
        return
    longer = "cut to fit"
    if isinstance(spec.options, ScoreOptions) and not spec.options.pairs:
        longer = f"read as --window {spec.options.window} says"
    if spec.task is Task.RERANK:
        yield f"candidates  {count(preview.num_sequences)}, each read with its query"
    if preview.num_longer:
        yield f"too long    {count(preview.num_longer)} for the model's positions ({longer})"
    yield f"tokens      {count(preview.num_tokens)}, the longest sequence {count(preview.longest)}"


def _number(bucket: Any) -> int:
    return int(bucket.num_segments)


def _done(spec: JobSpec) -> str:
    return WORDS[spec.task].done
