"""
Marks put back into a translation, by the words that they stand beside.

    "Wind of {n} knots in <b>the north</b>"   +   "北方风速节"   ->   "<b>北方</b>风速{n}节"

A mark that stands alone goes before the translation of the word behind it, or behind that of the word before it. A pair
goes around the run of words that holds most words of its own and fewest of others. Then the places are made nested,
from the outside in: whatever the alignment, every mark is there once.

Knows: a sentence with marks, words. Does not know: models.
"""

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jobs.outcome import Flag
from worker.text.marks.mark import Kind
from worker.text.marks.marked_text import MarkedSentence, Placed, StoodIn
from worker.text.marks.stand_ins import place_of
from worker.text.marks.word_places import WordPlaces, by_length
from worker.text.word_alignment import Alignment, Spans

_SPACELESS = re.compile("[\u0e00-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_MAX_WORK = 5_000_000  # pairs x words of a sentence; beyond, alignment is not asked


@dataclass(slots=True)
class _Node:
    """A mark alone, or a pair with what is in it."""

    mark: int | None  # the index of the mark alone, or that begins the pair; None: the pair begins before the sentence
    order: int
    start: int = 0  # wanted place in characters of the translation
    stop: int = 0
    end: int | None = None  # the index of the mark that ends the pair; None: it ends behind the sentence
    is_pair: bool = False
    children: list["_Node"] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, int, int]:
        """What ends a pair of an earlier sentence comes first, what begins one of a later sentence last."""
        outer = 0 if not self.is_pair else -1 if self.mark is None else 1 if self.end is None else 0
        return outer, self.start, self.order


def put_back(sentence: MarkedSentence, translation: str, alignment: Alignment | None) -> tuple[str, tuple[Flag, ...]]:
    """The translation with each mark of the sentence once, pairs nested; MARKUP_MOVED where a place is a guess: without
    an alignment, where the words of a pair are torn apart, or the model lost what stood in for a mark. The sentence
    itself comes back as its source. The translation has each stand-in of the sentence once.

    `alignment`: of `sentence.plain` and `translation`; None: places follow from order and length.
    """
    if translation == sentence.plain:
        return sentence.source, ()
    found = _Written(sentence, translation)
    if not sentence.marks:
        return found.text(0, len(translation)), ()
    inner = any(0 < mark.at < len(sentence.plain) for mark in sentence.marks)
    if len(sentence.marks) * (len(alignment.target) if alignment else 0) > _MAX_WORK:
        alignment = None
    links = found.linked(alignment or by_length(sentence.plain, translation))
    places = WordPlaces(sentence.plain, translation, links)
    nodes = _nodes(sentence.marks)
    moved = sentence.is_unsure or (inner and alignment is None)
    moved |= _set_places(nodes, sentence, places, alignment is not None)
    events, clipped = _nested(nodes, len(translation))
    events = [(found.edge(place), index) for place, index in events]
    moved = moved or clipped or found.left_their_pairs(events)
    return _rendered(sentence, found, events), (Flag.MARKUP_MOVED,) if moved else ()


class _Written:
    """A translation, and in it the words that stand in for marks."""

    def __init__(self, sentence: MarkedSentence, translation: str) -> None:
        self.translation = translation
        self._sentence = sentence
        self._words: list[tuple[int, int, StoodIn]] = []  # start and stop in the translation, in order
        for word in sentence.stood_in:
            start = place_of(word.written, translation)
            assert start is not None, "a translation lacks a stand-in"
            self._words.append((start, start + len(word.written), word))
        self._words.sort(key=lambda word: word[0])

    def text(self, start: int, stop: int) -> str:
        """A part of the translation as it is written, with the marks that others stand in for."""
        parts = []
        for begin, end, word in self._words:
            if start <= begin < stop:
                parts += [self._escaped(start, begin), word.text]
                start = end
        return "".join([*parts, self._escaped(start, stop)])

    def edge(self, place: int) -> int:
        """The place, moved out of a stand-in."""
        return next((start for start, stop, _word in self._words if start < place < stop), place)

    def linked(self, alignment: Alignment) -> Alignment:
        """The alignment with each stand-in linked to what stands in the translation for it."""
        if not self._words:
            return alignment
        pairs = [
            (_words_within(alignment.source, word.at, word.at + len(word.form)), _words_within(alignment.target, *span))
            for *span, word in self._words
        ]
        sources, targets = ({own for pair in pairs for own in pair[side]} for side in (0, 1))
        weights = alignment.word_weights().copy()
        weights[:, sorted(sources)] = 0
        weights[sorted(targets)] = 0
        for own_sources, own_targets in pairs:
            weights[np.ix_(own_targets, own_sources)] = 1 / max(len(own_sources), 1)
        return replace(alignment, weights=weights)

    def left_their_pairs(self, events: Sequence[tuple[int, int]]) -> bool:
        """Whether a stand-in is in a pair that it was not in, or the reverse."""
        if not self._words:
            return False
        marks, placed = self._sentence.marks, {index: place for place, index in events}
        return any(
            (marks[mark.partner].at <= word.at < mark.at) != (placed[mark.partner] <= start < placed[index])
            for index, mark in enumerate(marks)
            if mark.kind == Kind.CLOSE and mark.partner is not None
            for start, _stop, word in self._words
        )

    def _escaped(self, start: int, stop: int) -> str:
        text = self.translation[start:stop]
        return html.escape(text, quote=False) if self._sentence.is_escaped else text


def _words_within(spans: Spans, start: int, stop: int) -> range:
    """The words that a part of a text overlaps."""
    first = bisect_right([end for _begin, end in spans], start)
    return range(first, max(first, bisect_left([begin for begin, _end in spans], stop)))


def _nodes(marks: Sequence[Placed]) -> list[_Node]:
    """The tree of the marks. A pair that began in an earlier sentence holds all before its end, one that ends in a
    later sentence all behind its beginning."""
    levels: list[list[_Node]] = [[]]
    for index, mark in enumerate(marks):
        if mark.kind == Kind.OPEN:
            node = _Node(index, index, is_pair=True)
            levels[-1].append(node)
            levels.append(node.children)
        elif mark.kind == Kind.CLOSE and mark.partner is not None and len(levels) > 1:
            levels.pop()
            levels[-1][-1].end = index
        elif mark.kind == Kind.CLOSE:
            levels[0] = [_Node(None, index, end=index, is_pair=True, children=levels[0])]
            levels[1:] = []
        else:
            levels[-1].append(_Node(index, index))
    return levels[0]


def _set_places(nodes: list[_Node], sentence: MarkedSentence, places: WordPlaces, is_aligned: bool) -> bool:
    """Set the wanted places; whether one is unsure, or is a guess although there is an alignment."""
    guessed = False
    pending = list(nodes)
    while pending:
        node = pending.pop()
        pending += node.children
        if not node.is_pair:
            assert node.mark is not None
            mark = sentence.marks[node.mark]
            node.start, is_sure = places.point(mark.at, mark.kind)
            node.stop = node.start
            guessed |= is_aligned and not is_sure and mark.kind in (Kind.ALONE, Kind.WORD, Kind.BLANK)
            continue
        start = 0 if node.mark is None else sentence.marks[node.mark].at
        stop = len(sentence.plain) if node.end is None else sentence.marks[node.end].at
        run = places.run(start, stop) if start < stop else None
        if run is not None:
            node.start, node.stop, is_sure = run
            guessed |= not is_sure
            continue
        guessed = guessed or is_aligned
        if start < stop:
            node.start, node.stop = places.word_at(start)
        else:
            node.start, _is_sure = places.point(start, Kind.OPEN)
            node.stop = node.start
    return guessed


def _nested(nodes: list[_Node], length: int) -> tuple[list[tuple[int, int]], bool]:
    """The marks by their indices in the order of the translation, each with its place; whether a wanted place was
    taken by another mark."""
    events: list[tuple[int, int]] = []
    clipped = False
    # Each level: its nodes that are left (the last is next), where the next may begin, where all must end, its mark.
    levels: list[tuple[list[_Node], int, int, int | None]] = [(_in_order(nodes), 0, length, None)]
    while levels:
        left, cursor, limit, ends = levels.pop()
        if not left:
            if ends is not None:
                events.append((limit, ends))
            continue
        node = left.pop()
        start = 0 if node.mark is None else min(max(node.start, cursor), limit)
        stop = limit if node.is_pair and node.end is None else min(max(node.stop, start), limit)
        clipped |= node.mark is not None and start != node.start
        clipped |= node.is_pair and node.end is not None and stop != node.stop
        levels.append((left, stop, limit, ends))
        if node.mark is not None:
            events.append((start, node.mark))
        if node.is_pair:
            levels.append((_in_order(node.children), start, stop, node.end))
    return events, clipped


def _in_order(nodes: list[_Node]) -> list[_Node]:
    return sorted(nodes, key=lambda node: node.rank, reverse=True)


def _rendered(sentence: MarkedSentence, found: _Written, events: Sequence[tuple[int, int]]) -> str:
    """The translation with the marks at their places, and the blanks that they need."""
    translation, parts = found.translation, list[str]()
    last, done, after_open = "", 0, False  # the last character of text, how much is written
    for number, (place, index) in enumerate(events):
        mark = sentence.marks[index]
        if place > done:
            parts.append(found.text(done, place))
            last, done, after_open = translation[place - 1], place, False
        rest = translation[done : done + 1]
        if mark.kind in (Kind.BLANK, Kind.BREAK):
            if rest == " ":
                done += 1
            elif last == " " and parts and parts[-1].endswith(" "):
                parts[-1] = parts[-1][:-1]
            parts.append(mark.text)
            last = "\u00a0"
            continue
        if mark.kind in (Kind.OPEN, Kind.CLOSE):
            parts.append(mark.text)
            after_open = mark.kind == Kind.OPEN
            continue
        is_tight = mark.kind == Kind.ALONE and any(
            map(_SPACELESS.match, (last, rest))
        )  # nothing is put between letters
        if not (after_open or is_tight) and _needs_blank(mark, mark.before, last, is_left=True):
            parts.append(" ")
        parts.append(mark.text)
        last, after_open = "\ufffc", False
        following = sentence.marks[events[number + 1][1]] if number + 1 < len(events) else None
        if following is not None and events[number + 1][0] <= done:
            if following.kind != Kind.CLOSE and following.kind != Kind.BLANK and mark.behind.isspace():
                parts.append(" ")
                last = " "
        elif not is_tight and _needs_blank(mark, mark.behind, rest, is_left=False):
            parts.append(" ")
            last = " "
    parts.append(found.text(done, len(translation)))
    return "".join(parts)


def _needs_blank(mark: Placed, in_source: str, neighbour: str, *, is_left: bool) -> bool:
    """Whether a blank is between a mark and its neighbour in the translation. `in_source`: the neighbour there."""
    if not neighbour or neighbour.isspace() or neighbour == "\u00a0" or _SPACELESS.match(neighbour):
        return False
    if neighbour == "\ufffc" or neighbour.isalnum():
        is_glued = in_source.isalnum() and not _SPACELESS.match(in_source)
        return in_source.isspace() or (mark.kind == Kind.WORD and neighbour != "\ufffc" and not is_glued)
    category = unicodedata.category(neighbour)
    touches = ("Ps", "Pi") if is_left else ("Pe", "Pf", "Po")
    return in_source.isspace() and category not in touches
