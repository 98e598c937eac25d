"""The number and lengths of the sequences that a job would read: for `submit --dry-run` of scoring and reranking.

Knows: numbers of ids. Does not know: texts, tokenizers, models.
"""

from collections import Counter
from collections.abc import Iterable

from jobs.submission.dry_run import LengthBucket, SequenceCounts


def count_sequences(lengths: Iterable[int], max_tokens: int) -> SequenceCounts:
    """`lengths` are the numbers of ids of the sequences, `max_tokens` is the number of positions of the model."""
    num_longer = num_tokens = longest = 0
    buckets: Counter[int] = Counter()
    for length in lengths:
        num_longer += length > max_tokens
        num_tokens += length
        longest = max(longest, length)
        buckets[1 << max(0, length - 1).bit_length()] += 1
    return SequenceCounts(
        num_sequences=buckets.total(),
        num_longer=num_longer,
        num_tokens=num_tokens,
        longest=longest,
        histogram=tuple(LengthBucket(size, buckets[size]) for size in sorted(buckets)),
    )
