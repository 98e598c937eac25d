"""The output of `kvjobs submit --dry-run` for a person."""

from collections.abc import Iterator, Sequence

from jobs.routing.plan import AUTO
from jobs.spec import JobSpec
from jobs.stage import FilterSpec, Stage
from jobs.submission.dry_run import DryRun, SegmentCounts, SequenceCounts
from jobs.tasks.score import ScoreOptions
from jobs.text.formatting import count, counted, duration, plural


def describe(dry_run: DryRun, spec: JobSpec, stages: Sequence[Stage], tokens_per_s: float | None) -> Iterator[str]:
    """The lines of the page; `tokens_per_s` is the speed of earlier jobs with the same model, if there were any. Of the
    `stages` behind the first nothing is counted: what they read is not made yet, or a filter decides it."""
    counts = dry_run.counts
    documents, done = plural(spec.kind.words.document), spec.kind.words.done
    yield f"{documents:<9}   {count(dry_run.num_documents)}" + (
        f", and {counted(dry_run.num_rejected, 'rejected line')}" if dry_run.num_rejected else ""
    )
    if 0 < dry_run.num_without_id < dry_run.num_documents:
        without = counted(dry_run.num_without_id, "document")
        yield f"ids         {without} without one: the line number is used instead"
    if counts is None:
        estimated = count(dry_run.estimated_tokens)
        why = f"the tokenizer of {spec.model} is not on this machine"
        if spec.model == AUTO:
            why = "each language has a model of its own"
        yield f"tokens      about {estimated}, an estimate: {why}"
    else:
        yield from _segments(counts) if isinstance(counts, SegmentCounts) else _sequences(counts, spec)
        yield from _histogram(counts)
    yield f"shards      {count(dry_run.num_shards)}"
    if tokens_per_s:
        needed = duration(dry_run.estimated_tokens / tokens_per_s)
        yield f"estimate    {needed}, at the speed of the last job {done} with this model"
    else:
        yield f"estimate    none: no job has been {done} with this model here yet"
    for rejected in dry_run.rejected:
        yield f"rejected    line {rejected.line}: {rejected.reason}"
    if dry_run.num_rejected > len(dry_run.rejected):
        yield f"            ... and {counted(dry_run.num_rejected - len(dry_run.rejected), 'line')} more"
    for number, stage in enumerate(stages, start=2):
        model = "" if isinstance(stage.spec, FilterSpec) else f" ({stage.spec.model})"
        yield f"stage {number:<3}   {stage.spec.task}{model}: possible, and not counted above"


def _histogram(counts: SegmentCounts | SequenceCounts) -> Iterator[str]:
    widest = max((bucket.num_sequences for bucket in counts.histogram), default=1)
    for bucket in counts.histogram:
        bar = "#" * max(1, round(40 * bucket.num_sequences / widest))
        yield f"  up to {bucket.max_tokens:>4} tokens {bucket.num_sequences:>10,}  {bar}"


def _segments(counts: SegmentCounts) -> Iterator[str]:
    yield f"segments    {count(counts.num_segments)} to translate, {count(counts.num_passed_through)} to copy" + (
        f", {count(counts.num_split)} longer than the model's positions (translated in pieces)"
        if counts.num_split
        else ""
    )
    yield f"tokens      {count(counts.num_tokens)}, the longest segment {count(counts.longest)}"


def _sequences(counts: SequenceCounts, spec: JobSpec) -> Iterator[str]:
    longer = spec.kind.too_long
    if isinstance(spec.options, ScoreOptions) and not spec.options.pairs:
        longer = f"read with --window {spec.options.window}"
    if spec.kind.has_candidates:
        yield f"candidates  {count(counts.num_sequences)}, each read with its query"
    if counts.num_longer:
        yield f"too long    {count(counts.num_longer)} for the model's positions ({longer})"
    yield f"tokens      {count(counts.num_tokens)}, the longest sequence {count(counts.longest)}"
