"""What a corpus would be to a model, without running it: the figures of `submit --dry-run`.

Knows: segments and their numbers of ids. Does not know: where texts come from, how long a job takes.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from worker.text.segments import segment


class Encodes(Protocol):
    """What a preview asks of a tokenizer."""

    def encode(self, text: str, language: str | None) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Bucket:
    """Segments of more than half of `max_tokens` ids and at most that many."""

    max_tokens: int  # a power of two
    num_segments: int


@dataclass(frozen=True, slots=True)
class Preview:
    """Counts over a corpus. Segments that pass through are not among `num_segments`."""

    num_documents: int
    num_empty: int  # documents with nothing to translate
    num_segments: int  # sentences that the model would translate
    num_passed_through: int  # sentences without a letter, which would be copied
    num_split: int  # of num_segments: longer than the model's positions, so translated in pieces
    num_tokens: int  # source ids, label and end-of-sentence included
    longest: int  # ids of the longest segment
    histogram: tuple[Bucket, ...]  # shortest first, without empty buckets

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def preview(
    texts: Iterable[str],
    tokenizer: Encodes,
    *,
    source_language: str,
    target_language: str | None,
    max_tokens: int,
) -> Preview:
    """Count what a job over `texts` would have to do; keeps no text.

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
    return Preview(
        num_documents=num_documents,
        num_empty=num_empty,
        num_segments=buckets.total(),
        num_passed_through=num_passed_through,
        num_split=num_split,
        num_tokens=num_tokens,
        longest=longest,
        histogram=tuple(Bucket(size, buckets[size]) for size in sorted(buckets)),
    )
