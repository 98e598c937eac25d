"""How long the sequences are that a model would read: the figures of `submit --dry-run` for scoring and reranking.

Knows: numbers of ids. Does not know: texts, tokenizers, models.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from worker.text.preview import Bucket


@dataclass(frozen=True, slots=True)
class Lengths:
    """Counts over sequences."""

    num_sequences: int
    num_longer: int  # than the model's positions
    num_tokens: int
    longest: int
    histogram: tuple[Bucket, ...]  # shortest first, without empty buckets


def count_lengths(lengths: Iterable[int], max_tokens: int) -> Lengths:
    """Each is the number of ids of a sequence; `max_tokens` the number of positions of the model."""
    num_longer = num_tokens = longest = 0
    buckets: Counter[int] = Counter()
    for length in lengths:
        num_longer += length > max_tokens
        num_tokens += length
        longest = max(longest, length)
        buckets[1 << max(0, length - 1).bit_length()] += 1
    return Lengths(
        num_sequences=buckets.total(),
        num_longer=num_longer,
        num_tokens=num_tokens,
        longest=longest,
        histogram=tuple(Bucket(size, buckets[size]) for size in sorted(buckets)),
    )
