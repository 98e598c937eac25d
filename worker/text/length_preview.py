"""What a corpus would be to a model that scores it, without running it: the figures of `submit --dry-run`.

Knows: numbers of tokens. Does not know: tokenizers, windows, where texts come from, how long a job takes.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Measured:
    """One sequence that a model would read: a document, a pair, or a query with a candidate."""

    num_tokens: int
    longest: int  # of what the model takes at once: all of it, or the longer half of a pair


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """Sequences of more than half of `max_tokens` tokens and at most that many."""

    max_tokens: int  # a power of two
    num_sequences: int


@dataclass(frozen=True, slots=True)
class LengthPreview:
    """Counts over a corpus. What a job puts before and between texts (BOS, a template) is not among the tokens."""

    num_documents: int
    num_sequences: int  # as many as documents, but for queries: their candidates
    num_empty: int  # documents without a token
    num_long: int  # sequences of more tokens than the model takes at once
    num_tokens: int
    longest: int  # tokens of the longest sequence
    histogram: tuple[LengthBucket, ...]  # shortest first, without empty buckets

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def preview_lengths(documents: Iterable[Sequence[Measured]], *, max_tokens: int) -> LengthPreview:
    """Count what a job over `documents` would have to do; `max_tokens` is what the model takes at once."""
    num_documents = num_empty = num_long = num_tokens = longest = 0
    buckets: Counter[int] = Counter()
    for sequences in documents:
        num_documents += 1
        num_empty += not any(sequence.num_tokens for sequence in sequences)
        for sequence in sequences:
            num_long += sequence.longest > max_tokens
            num_tokens += sequence.num_tokens
            longest = max(longest, sequence.num_tokens)
            buckets[1 << max(0, sequence.num_tokens - 1).bit_length()] += 1
    return LengthPreview(
        num_documents=num_documents,
        num_sequences=buckets.total(),
        num_empty=num_empty,
        num_long=num_long,
        num_tokens=num_tokens,
        longest=longest,
        histogram=tuple(LengthBucket(size, buckets[size]) for size in sorted(buckets)),
    )
