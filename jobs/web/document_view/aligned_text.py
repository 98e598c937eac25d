"""A text and its translation, cut into pairs that belong together; with the text between them, where there is one."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a sentence or of its translation, and the words of the other side that belong to it."""

    start: int  # characters of the sentence, from 0
    stop: int
    links: tuple[int, ...]  # numbers of words of the other side, from 0


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation, or what stands between two sentences on both sides."""

    source: str
    target: str
    number: int | None  # of the sentence, from 1; None: between sentences
    begins_paragraph: bool  # a line ends before it
    via: str | None = None  # what the first of two models made of the sentence
    source_words: Sequence[Word] = ()  # empty where no alignment is stored
    target_words: Sequence[Word] = ()


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
    alignments: str | None = None,
) -> AlignedText | None:
    """Pairs from `translations.segments` and, of the text in the middle, `via_segments`; None where there are none.
    With `alignments`, as they are stored, the pairs have words."""
    if not segments:
        return None
    places = orjson.loads(segments)
    pairs = list(_pairs(source, target, places))
    if alignments:
        words = list(map(_words, places, orjson.loads(alignments)))
        pairs = [pair if pair.number is None else _with_words(pair, words[pair.number - 1]) for pair in pairs]
    if via is not None and via_segments:
        middle = [via[start:stop] for start, stop in orjson.loads(via_segments)]
        pairs = [pair if pair.number is None else replace(pair, via=middle[pair.number - 1]) for pair in pairs]
    ends = itertools.accumulate(len(pair.source) + len(pair.via or "") + len(pair.target) for pair in pairs)
    num_shown = max(1, sum(end <= max_characters for end in ends))
    return AlignedText(pairs[:num_shown], len(pairs[num_shown:]))


def _words(place: list[int], alignment: dict[str, Any] | None) -> tuple[list[Word], list[Word]]:
    """The words of a sentence and of its translation, by their places in these."""
    if alignment is None:
        return [], []
    links = [tuple(map(int, link.split("-"))) for link in alignment["links"].split()]
    found = []
    for side, (key, offset) in enumerate((("source", place[0]), ("target", place[2]))):
        others: dict[int, list[int]] = {}
        for link in links:
            others.setdefault(link[side], []).append(link[1 - side])
        found.append(
            [
                Word(start - offset, stop - offset, tuple(others.get(number, ())))
                for number, (start, stop) in enumerate(alignment[key])
            ]
        )
    return found[0], found[1]


def _with_words(pair: Pair, words: tuple[list[Word], list[Word]]) -> Pair:
    return replace(pair, source_words=words[0], target_words=words[1])


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
