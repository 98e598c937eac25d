"""What `submit --dry-run` reports: the size of a corpus as one job's model would read it.

Knows: counts. Does not know: how they are made (`worker.model_tools.dry_run`) or shown (`jobs.cli.render.dry_run`).
"""

from dataclasses import dataclass

from jobs.documents import Rejected


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
