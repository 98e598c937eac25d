"""
A text with marks as its sentences: of each what the model sees, and the marks with their places in it.

    "Hi <b>{name}</b>, see <i>this</i>.<br>Go!"
        the splitter sees   "Hi Name, see this.\n\nGo!"
        the model sees      "Hi, see this."   "Go!"
        between them        "<br>"

A stand-in for a word keeps marks from disturbing the splitter. Marks around a whole sentence stay outside of it.

Knows: marks, sentences. Does not know: translations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.tasks.translate import Segmentation
from jobs.text.markup import Markup
from worker.text.marks.finding import find
from worker.text.marks.mark import Kind, Mark, MarkRules
from worker.text.segments import Span, segment

_SEEN = {Kind.WORD: "Name", Kind.BREAK: "\n\n", Kind.BLANK: " ", Kind.WRAP: " "}  # by the splitter
_JOINED_LINES = str.maketrans("\r\n", "  ")  # a sentence over several lines is read as one
CLOSING = frozenset(".,;:!?)]}%»”’…")


@dataclass(slots=True)
class Placed:
    """A mark of a sentence."""

    text: str  # as it stands in the source
    kind: Kind  # any but CHARACTER; BREAK where a document is translated as a whole
    at: int  # in characters of the plain sentence: what stands before it there
    before: str  # the character of the source that stands before it; "" at the beginning of the sentence
    behind: str
    partner: int | None = None  # of OPEN and CLOSE: the index of the other in the sentence; None: in another one


@dataclass(frozen=True, slots=True)
class StoodIn:
    """A word mark of a sentence that another word stands in for."""

    text: str  # the mark, as it stands in the source
    number: int  # of the sentence's word marks, from 0
    at: int  # where the other word is in the plain sentence
    form: str  # what stands there
    written: str  # what a translation has for it


@dataclass(frozen=True, slots=True)
class MarkedSentence:
    """A sentence that holds marks."""

    source: str
    plain: str  # what the model sees
    marks: tuple[Placed, ...]
    is_escaped: bool  # whether & < > are written as entities
    stood_in: tuple[StoodIn, ...] = ()  # each translation has each once (`stand_ins.Attempt`)
    is_unsure: bool = False  # whether the model lost all that stood in for one of the marks

    def without_stand_ins(self) -> str:
        """What the model sees, with U+FFFC, which is part of no word, in place of each stand-in."""
        parts, done = [], 0
        for word in self.stood_in:
            parts += [self.plain[done : word.at], "\ufffc"]
            done = word.at + len(word.form)
        return "".join([*parts, self.plain[done:]])


def marked_spans(
    text: str, language: str, rules: MarkRules, unit: Segmentation = Segmentation.SENTENCES
) -> list[tuple[Span, MarkedSentence | None]]:
    """The spans of a text, as `segment` cuts it, with what is marked in a sentence; None: nothing is. The texts of the
    spans as the document has them, joined, are the text. A sentence of marks without a letter is not translatable."""
    marks = find(text, rules)
    if not marks:
        return [(span, None) for span in segment(text, language, unit)]
    view, starts, stops = _view(text, marks, keeps_lines=unit == Segmentation.LINES)
    is_escaped = rules.markup in (Markup.HTML, Markup.XML)
    spans: list[tuple[Span, MarkedSentence | None]] = []
    done = at = next_mark = 0  # characters of the text, characters of the view, marks
    gap_part: Span | None = None  # before the next sentence
    for part in segment(view, language, unit):
        start, at = at, at + part.length
        if part.is_gap:
            gap_part = part
            continue
        gap_mark = next_mark
        first = _first_within(marks, starts, stops, next_mark, (start, at))
        end = _end_within(marks, starts, stops, first, at)
        source_start, source_stop = (
            marks[index - 1].stop + place - stops[index - 1] if index else place
            for index, place in ((first, start), (end, at))
        )
        if first == gap_mark and gap_part is not None:
            spans.append((gap_part, None))
        elif source_start > done:
            spans.append((Span(text[done:source_start], translatable=False, kept=True), None))
        gap_part = None
        source = text[source_start:source_stop]
        if first == end and not (is_escaped and any(sign in source for sign in "<>&")):
            spans.append((part, None))
        else:
            own = marks[first:end]
            # In Markdown & < > stand for themselves, unless the sentence has them as entities.
            writes_entities = is_escaped or any(mark.kind == Kind.CHARACTER and mark.name in "&<>" for mark in own)
            sentence = _sentence(text, own, first, source_start, source_stop, writes_entities)
            has_letter = any(map(str.isalpha, sentence.plain))
            span = Span(source, translatable=has_letter, letterless=not has_letter)
            spans.append((span, sentence if has_letter else None))
        done, next_mark = source_stop, end
    if done < len(text):
        spans.append((Span(text[done:], translatable=False, kept=next_mark < len(marks)), None))
    return spans


def _view(text: str, marks: Sequence[Mark], *, keeps_lines: bool) -> tuple[str, list[int], list[int]]:
    """What the splitter sees, and where in it each mark begins and ends."""
    parts: list[str] = []
    starts, stops = [], []
    length = done = 0
    for mark in marks:
        seen = mark.name if mark.kind == Kind.CHARACTER else _SEEN.get(mark.kind, "")
        if keeps_lines and mark.kind == Kind.WRAP:
            seen = "\n"
        parts += [text[done : mark.start], seen]
        starts.append(length + mark.start - done)
        stops.append(length := starts[-1] + len(seen))
        done = mark.stop
    return "".join([*parts, text[done:]]), starts, stops


def _first_within(
    marks: Sequence[Mark], starts: Sequence[int], stops: Sequence[int], index: int, sentence: tuple[int, int]
) -> int:
    """The first mark of a sentence: of those right before its first letter, the first that begins a pair within it."""
    start, stop = sentence
    while index < len(marks) and stops[index] <= start:
        partner = marks[index].partner
        if (
            starts[index] == start
            and marks[index].kind == Kind.OPEN
            and partner is not None
            and start < starts[partner] < stop
        ):
            break
        index += 1
    return index


def _end_within(marks: Sequence[Mark], starts: Sequence[int], stops: Sequence[int], first: int, stop: int) -> int:
    """The first mark behind a sentence: of those right behind its last letter, none but ends of pairs within it."""
    end = first
    while end < len(marks) and starts[end] < stop:
        end += 1
    last = end
    while last < len(marks) and stops[last] == stop:
        last += 1
    while last > end:
        partner = marks[last - 1].partner
        if marks[last - 1].kind == Kind.CLOSE and partner is not None and partner >= first:
            break
        last -= 1
    return last


def _sentence(text: str, marks: Sequence[Mark], first: int, start: int, stop: int, is_escaped: bool) -> MarkedSentence:
    """A sentence from text[start:stop], whose marks are `marks`; the index of the first in the text is `first`."""
    plain: list[str] = []
    placed: list[Placed] = []
    index_of: dict[int, int] = {}
    done, behind_mark = start, False
    for index, mark in enumerate(marks, first):
        _append(plain, placed, text[done : mark.start], behind_mark)
        behind_mark = behind_mark and done == mark.start
        done = mark.stop
        if mark.kind == Kind.CHARACTER:
            _append(plain, placed, mark.name, behind_mark)
            behind_mark = False
            continue
        if mark.kind == Kind.WRAP:
            _append(plain, placed, " " if plain and plain[-1] != " " else "", behind_mark=False)
            continue
        before = text[mark.start - 1] if mark.start > start else ""
        behind = text[mark.stop] if mark.stop < stop else ""
        if mark.kind in (Kind.BLANK, Kind.BREAK) and plain and plain[-1] != " ":
            placed.append(Placed(text[mark.start : mark.stop], mark.kind, len(plain), before, behind))
            plain.append(" ")
            continue
        behind_mark = True
        opened = mark.partner if mark.kind == Kind.CLOSE else None
        if opened is not None and opened in index_of and placed[index_of[opened]].at >= len(plain):
            # Nothing but marks is in the pair: it is a mark as a whole.
            del placed[index_of[opened] + 1 :]
            whole = placed[-1]
            placed[-1] = Placed(
                text[marks[opened - first].start : mark.stop], Kind.WORD, len(plain), whole.before, behind
            )
            continue
        partner = index_of.get(opened) if opened is not None else None
        if partner is not None:
            placed[partner].partner = len(placed)
        index_of[index] = len(placed)
        placed.append(Placed(text[mark.start : mark.stop], mark.kind, len(plain), before, behind, partner))
    _append(plain, placed, text[done:stop], behind_mark)
    while plain and plain[-1].isspace():
        _drop_last(plain, placed)
    seen = "".join(plain).translate(_JOINED_LINES)
    return MarkedSentence(text[start:stop], seen, tuple(placed), is_escaped)


def _append(plain: list[str], placed: list[Placed], piece: str, behind_mark: bool) -> None:
    """Add text, with the blanks as they would be without the mark before it."""
    if behind_mark and piece:
        if piece[0].isspace() and (not plain or plain[-1].isspace()):
            piece = piece[1:]
        elif piece[0] in CLOSING and plain and plain[-1].isspace():
            _drop_last(plain, placed)
    plain += piece


def _drop_last(plain: list[str], placed: list[Placed]) -> None:
    plain.pop()
    for mark in reversed(placed):
        if mark.at <= len(plain):
            break
        mark.at = len(plain)
