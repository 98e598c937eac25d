"""What `submit --dry-run` reports: the size of a corpus as one job's model would read it.

Knows: counts. Does not know: how they are made (`worker.model_tools.dry_run`), or shown to a person
(`jobs.cli.render.dry_run`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.documents import Rejected
from jobs.spec import JobSpec
from jobs.stage import Stage


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """Sequences of more than half of `max_tokens` ids and at most that many."""

    max_tokens: int  # a power of two
    num_sequences: int


@dataclass(frozen=True, slots=True)
class SegmentCounts:
    """A corpus to translate. Sentences without a letter are copied: they are not among `num_segments`."""

    num_documents: int
    num_empty: int  # documents with nothing to translate
    num_segments: int  # sentences that the model would translate
    num_passed_through: int  # sentences without a letter, which would be copied
    num_split: int  # of num_segments: longer than the model's positions, so translated in pieces
    num_tokens: int  # source ids, label and end-of-sentence included
    longest: int  # ids of the longest segment
    histogram: tuple[LengthBucket, ...]  # shortest first, without empty buckets


@dataclass(frozen=True, slots=True)
class SequenceCounts:
    """A corpus to score or rerank: documents, sides of pairs, or candidates with their queries."""

    num_sequences: int
    num_longer: int  # than the model's positions
    num_tokens: int
    longest: int  # ids of the longest sequence
    histogram: tuple[LengthBucket, ...]  # shortest first, without empty buckets


@dataclass(frozen=True, slots=True)
class DryRun:
    """How many documents of a corpus a submit would take, and which lines it would reject."""

    counts: SegmentCounts | SequenceCounts | None  # of the documents that can be read; None: no tokenizer is here
    num_documents: int
    estimated_tokens: int  # of these documents, by the same estimate as a submit's
    num_rejected: int
    rejected: tuple[Rejected, ...]  # the first of them
    num_shards: int
    num_without_id: int  # documents without an id of the corpus; their id is the line number


def dry_run_record(
    dry_run: DryRun, spec: JobSpec, stages: Sequence[Stage], tokens_per_s: float | None
) -> dict[str, Any]:
    """The facts as an object of JSON; `tokens_per_s`: the speed of earlier jobs with the same model."""
    counts = dry_run.counts
    return {
        "dry_run": True,
        "task": spec.task,
        "model": spec.model,
        "documents": dry_run.num_documents + dry_run.num_rejected,
        "rejected": dry_run.num_rejected,
        "rejected_lines": [
            {"line": rejection.line, "error": rejection.reason} for rejection in dry_run.rejected
        ],  # the first of them
        "without_id": dry_run.num_without_id,  # of the documents that are not rejected
        "shards": dry_run.num_shards,
        "tokens": counts.num_tokens if counts else None,  # None: the tokenizer is not on this machine
        "longest": counts.longest if counts else None,
        "estimated_tokens": dry_run.estimated_tokens,
        "estimated_s": dry_run.estimated_tokens / tokens_per_s if tokens_per_s else None,
        **(_token_counts(counts) if counts else {}),
        "histogram": [
            {"max_tokens": bucket.max_tokens, "number": bucket.num_sequences}
            for bucket in (counts.histogram if counts else ())
        ],
        "stages_not_counted": [
            {"stage": number, "task": stage.spec.task, "model": stage.spec.model}
            for number, stage in enumerate(stages, start=2)
        ],
        "exit_code": 0,
    }


def _token_counts(counts: SegmentCounts | SequenceCounts) -> dict[str, int]:
    if isinstance(counts, SegmentCounts):
        return {
            "segments": counts.num_segments,
            "passed_through": counts.num_passed_through,
            "split": counts.num_split,
        }
    return {"sequences": counts.num_sequences, "longer": counts.num_longer}
