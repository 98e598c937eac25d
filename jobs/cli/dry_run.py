"""`kvjobs submit --dry-run`: what would be done, as lines for a person."""

from collections.abc import Iterator
from typing import Any

from jobs.cli.wording import count, counted


def describe(rehearsal: Any, tokens_per_s: float | None) -> Iterator[str]:
    """A `worker.rehearsal.Rehearsal` in words; the estimate is from earlier jobs with the same model."""
    preview = rehearsal.preview
    yield f"documents   {count(preview.num_documents)}" + (
        f", and {count(rehearsal.num_rejected)} rejected lines" if rehearsal.num_rejected else ""
    )
    yield from _lengths(preview) if hasattr(preview, "num_sequences") else _segments(preview)
    yield f"shards      {count(rehearsal.num_shards)}"
    if tokens_per_s:
        minutes = preview.num_tokens / tokens_per_s / 60
        yield f"estimate    {minutes:,.1f} minutes at the {tokens_per_s:,.0f} tokens/s of earlier jobs with this model"
    else:
        yield "estimate    none: no job with this model has run here yet"
    for rejected in rehearsal.rejected:
        yield f"rejected    line {rejected.line}: {rejected.reason}"
    if rehearsal.num_rejected > len(rehearsal.rejected):
        yield f"            ... and {counted(rehearsal.num_rejected - len(rehearsal.rejected), 'line')} more"


def _segments(preview: Any) -> Iterator[str]:
    """Of a `worker.text.preview.Preview`: what would be translated."""
    yield f"segments    {count(preview.num_segments)} to translate, {count(preview.num_passed_through)} to copy" + (
        f", {count(preview.num_split)} longer than the model's positions (translated in pieces)"
        if preview.num_split
        else ""
    )
    yield f"tokens      {count(preview.num_tokens)}, the longest segment {count(preview.longest)}"
    yield from _histogram([(bucket.max_tokens, bucket.num_segments) for bucket in preview.histogram])


def _lengths(preview: Any) -> Iterator[str]:
    """Of a `worker.text.length_preview.LengthPreview`: what would be scored."""
    if preview.num_empty:
        yield f"empty       {count(preview.num_empty)}, of which no token can be scored"
    yield f"sequences   {count(preview.num_sequences)}" + (
        f", {count(preview.num_long)} longer than the model takes at once" if preview.num_long else ""
    )
    yield f"tokens      {count(preview.num_tokens)}, the longest sequence {count(preview.longest)}"
    yield from _histogram([(bucket.max_tokens, bucket.num_sequences) for bucket in preview.histogram])


def _histogram(buckets: list[tuple[int, int]]) -> Iterator[str]:
    """Of lengths: up to how many tokens, how many."""
    widest = max((size for _, size in buckets), default=1)
    for max_tokens, size in buckets:
        yield f"  up to {max_tokens:>4} tokens {size:>10,}  {'#' * max(1, round(40 * size / widest))}"
