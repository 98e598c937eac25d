"""The number and lengths of the segments that a translation job would translate: for `submit --dry-run`.

Knows: segments and their numbers of ids. Does not know: where texts come from, how long a job takes.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from jobs.submission.dry_run import LengthBucket, SegmentCounts
from worker.text.segments import segment


class Encodes(Protocol):
    """The part of a tokenizer that counting needs."""

    def encode(self, text: str, language: str | None) -> list[int]: ...


def count_segments(
    texts: Iterable[str],
    tokenizer: Encodes,
    *,
    source_language: str,
    target_language: str | None,
    max_tokens: int,
) -> SegmentCounts:
    """Count what a job over `texts` would translate, without keeping any text.

    `max_tokens` is the number of positions of the model.
    """
    num_documents = num_empty = num_passed_through = num_split = num_tokens = longest = 0
    buckets: Counter[int] = Counter()
    for text in texts:
        num_documents += 1
        is_empty = True
        for span in segment(text, source_language):
            num_passed_through += span.letterless
            if not span.translatable:
                continue
            is_empty = False
            length = len(tokenizer.encode(span.text, target_language))
            num_tokens += length
            num_split += length > max_tokens
            longest = max(longest, length)
            buckets[1 << (length - 1).bit_length()] += 1
        num_empty += is_empty
    return SegmentCounts(
        num_documents=num_documents,
        num_empty=num_empty,
        num_segments=buckets.total(),
        num_passed_through=num_passed_through,
        num_split=num_split,
        num_tokens=num_tokens,
        longest=longest,
        histogram=tuple(LengthBucket(size, buckets[size]) for size in sorted(buckets)),
    )
