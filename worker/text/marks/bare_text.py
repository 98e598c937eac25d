"""
A sentence and its translation without their marks, and the alignment of both as one of the texts with marks.

    <b>Rain</b> near {town}.     read as   Rain near Whitby.      {town} is one word, what stands in for it is none
    {town}附近有<b>雨</b>。        read as   惠特比附近有雨。

Knows: marks, places of words. Does not know: how words are aligned, documents.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from worker.text.marks.finding import EndlessPattern, find
from worker.text.marks.mark import Kind, Mark, MarkRules
from worker.text.marks.marked_text import CLOSING
from worker.text.word_alignment import Alignment, Spans

_BLANKS = (Kind.BLANK, Kind.BREAK, Kind.WRAP)


@dataclass(frozen=True, slots=True)
class BareText:
    """A text without marks."""

    text: str
    spans: Spans  # (len(text),): where each character stands in the text with marks
    words: tuple[tuple[int, int, str], ...]  # start and stop of each mark that is a word, there, and the mark


def marks_of(source: str, target: str, rules: MarkRules) -> tuple[list[Mark], list[Mark]]:
    """The marks of a text, and of its translation those that were put back: what only looks like one is text. Those of
    neither where a pattern of `rules.keep` takes too long."""
    try:
        marks, found = find(source, rules), find(target, rules)
    except EndlessPattern:
        return [], []
    left = Counter(source[mark.start : mark.stop] for mark in marks)
    return marks, [mark for mark in found if mark.kind == Kind.CHARACTER or _taken(target, mark, left)]


def _taken(text: str, mark: Mark, left: Counter[str]) -> bool:
    written = text[mark.start : mark.stop]
    left[written] -= 1
    return left[written] >= 0


def bare_text(text: str, start: int, stop: int, marks: Sequence[Mark], standing: Sequence[tuple[str, str]]) -> BareText:
    """text[start:stop] without those of `marks` that are within. `standing`: marks, or what holds one, and what stands
    in for each, in their order."""
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    words: list[tuple[int, int, str]] = []
    left = list(standing)

    def add(piece: str, at: int, end: int | None = None) -> None:
        """A piece that stands at `at` character for character, or as a whole up to `end`; with the blanks that there
        would be without the mark before it."""
        for offset, character in enumerate(piece):
            follows_blank = not pieces or pieces[-1].isspace()
            if character.isspace() and follows_blank:
                continue
            if offset == 0 and pieces and follows_blank and character in CLOSING:
                pieces.pop()
                spans.pop()
            pieces.append(character)
            spans.append((at + offset, at + offset + 1) if end is None else (at, end))

    done = start
    for mark in marks:
        if mark.start < done or mark.stop > stop:
            continue
        add(text[done : mark.start], done)
        done = mark.stop
        written = text[mark.start : mark.stop]
        if mark.kind == Kind.CHARACTER:
            add(mark.name, mark.start, mark.stop)
        elif mark.kind in _BLANKS:
            add(" ", mark.start, mark.stop)
        elif mark.kind == Kind.WORD:
            words.append((mark.start, mark.stop, written))
            found = next((each for each in left if written in each[0]), None)
            if found is not None:
                left.remove(found)
                add(found[1], mark.start, mark.stop)
    add(text[done:stop], done)
    return BareText("".join(pieces), tuple(spans), tuple(words))


def with_marks(source: BareText, target: BareText, alignment: Alignment) -> tuple[Spans, Spans, Spans]:
    """The words of both texts with marks and their links, from the alignment of the texts without: a mark that is a
    word is linked with itself alone, a word may have tags within it."""
    sides = [list(_places(side, words)) for side, words in ((source, alignment.source), (target, alignment.target))]
    shown = [sorted({place for place, _mark in side}) for side in sides]
    numbers = [{place: number for number, place in enumerate(side)} for side in shown]
    links = {
        (numbers[0][sides[0][i][0]], numbers[1][sides[1][j][0]])
        for i, j in alignment.links
        if not (sides[0][i][1] or sides[1][j][1])
    }
    others = _by_mark(sides[1])
    for mark, places in _by_mark(sides[0]).items():
        links |= {
            (numbers[0][one], numbers[1][other]) for one, other in zip(places, others.get(mark, ()), strict=False)
        }
    return tuple(shown[0]), tuple(shown[1]), tuple(sorted(links))


def _places(side: BareText, words: Spans) -> Iterator[tuple[tuple[int, int], str]]:
    """Of each word, and behind them of each mark that no word holds: the place, and the mark that it is, or ""."""
    marks = {(start, stop): mark for start, stop, mark in side.words}
    places = [(side.spans[start][0], side.spans[stop - 1][1]) for start, stop in words]
    taken = []
    for start, stop in places:
        place = next((place for place in marks if place[0] <= start and stop <= place[1]), None)
        if place is None:
            taken.append((start, stop))
        yield place or (start, stop), marks[place] if place else ""
    for place, mark in marks.items():
        if not any(start < place[1] and place[0] < stop for start, stop in taken):
            yield place, mark


def _by_mark(side: Sequence[tuple[tuple[int, int], str]]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for place, mark in sorted(set(side)):
        if mark:
            found.setdefault(mark, []).append(place)
    return found
