"""A text and its translation, cut into pairs that belong together; with the text between them, where there is one."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation, or what stands between two sentences on both sides."""

    source: str
    target: str
    number: int | None  # of the sentence, from 1; None: between sentences
    begins_paragraph: bool  # a line ends before it
    via: str | None = None  # what the first of two models made of the sentence


@dataclass(frozen=True, slots=True)
class AlignedText:
    """The pairs of a document up to some length."""

    pairs: list[Pair]
    num_left_out: int  # pairs behind these


def aligned(
    source: str,
    target: str,
    segments: str | None,
    max_characters: int,
    via: str | None = None,
    via_segments: str | None = None,
) -> AlignedText | None:
    """Pairs from `translations.segments` and, of the text in the middle, `via_segments`; None where there are none."""
    if not segments:
        return None
    pairs = list(_pairs(source, target, orjson.loads(segments)))
    if via is not None and via_segments:
        middle = [via[start:stop] for start, stop in orjson.loads(via_segments)]
        pairs = [pair if pair.number is None else replace(pair, via=middle[pair.number - 1]) for pair in pairs]
    ends = itertools.accumulate(len(pair.source) + len(pair.via or "") + len(pair.target) for pair in pairs)
    num_shown = max(1, sum(end <= max_characters for end in ends))
    return AlignedText(pairs[:num_shown], len(pairs[num_shown:]))


def _pairs(source: str, target: str, segments: list[list[Any]]) -> Iterator[Pair]:
    source_at = target_at = 0
    new_paragraph = False
    for number, (source_start, source_stop, target_start, target_stop) in enumerate(segments, 1):
        between = source[source_at:source_start], target[target_at:target_start]
        new_paragraph = new_paragraph or "\n" in between[0] or "\n" in between[1]
        if between[0].strip() or between[1].strip():
            yield Pair(between[0], between[1], None, new_paragraph)
            new_paragraph = False
        yield Pair(source[source_start:source_stop], target[target_start:target_stop], number, new_paragraph)
        source_at, target_at, new_paragraph = source_stop, target_stop, False
    rest = source[source_at:], target[target_at:]
    if rest[0].strip() or rest[1].strip():
        yield Pair(rest[0], rest[1], None, "\n" in rest[0])
