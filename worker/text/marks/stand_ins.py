"""
Words that stand in a sentence for its placeholders, so that the model reads a whole sentence.

    "Winds of {n} km/h near {town}."   ->   "Winds of 17 km/h near Whitby."   ->   "惠特比附近风速为每小时17公里。"

A stand-in is taken where each translation has it once, as a word of its own. Else the next one is tried: for {n}, and
for what stands before a unit or beside a number, a short number, a time, a decimal, a longer number; for {day} a day of
the week, for {time} a time, then the numbers; for {town} only a name, since with a number in its place a model may
write anything; for {0} a name, then the numbers. A placeholder whose stand-ins are all lost is taken out, and placed by
the words around it.

Knows: marked sentences, what a model writes for a stand-in. Does not know: models.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from worker.text.marks.known_words import StandIn, StandIns
from worker.text.marks.mark import Kind
from worker.text.marks.marked_text import MarkedSentence, Placed, StoodIn

# Several of a kind, for sentences that have several placeholders or one of these numbers.
NUMBERS = (("17", "58", "43", "92"), ("12:34", "08:15", "21:43"), ("17.5", "8.4", "26.3"), ("1017", "1460", "2035"))
_MAX_TRIES = 4  # translations of a sentence with stand-ins, before all its placeholders are taken out
_MAX_WORDS = 8  # placeholders of a sentence; if there are more, all are taken out
# What placeholders are called. A word and `_`, or one in small letters before a capital, may stand in front.
_FRONT = r"\W*(?:[a-z]+_|(?-i:[a-z]+(?=[A-Z])))?"
_NUMBER = re.compile(
    r"%[^A-Za-z%]*(?:hh|ll|[hlLqjzt])?[dioufFeEgGxX]|%\(\w+\)[^A-Za-z]*[dfg]"
    rf"|{_FRONT}(?:n|nr|no|num|numbers?|counts?|total|amount|sum|qty|quantity|size|min|max|percent|percentage|ratio|speed"
    r"|distance|height|width|depth|weight|temp|temperature|age|price|cost|score|points|pages?|lines?|rows?|columns?|bytes"
    r"|[km]b|duration|seconds?|secs?|minutes?|mins?|hours?|days|weeks|months|years)\W*",
    re.IGNORECASE,
)
_TIME = re.compile(rf"{_FRONT}(?:start_?|end_?)?time\W*", re.IGNORECASE)
_YEAR = re.compile(rf"{_FRONT}year\W*", re.IGNORECASE)
_DAY = re.compile(
    rf"{_FRONT}(?:(?:week|birth|holi|to|yester)?day|tomorrow|date|deadline)(?:_?of_?week|_[a-z]+)?\W*", re.IGNORECASE
)
_UNIT_BEHIND = re.compile(
    r"\s?(?:%|‰|°[CFK]?|[kcmµn]?m|km/h|mph|kn|kg|mg|lbs?|[kMGT]i?B|kbit/s|ms|[kMG]?Hz|k?Wh?|[hk]?Pa|px|dpi|fps|EUR|USD|GBP"
    r"|degrees|percent|metres|meters|kilometres|kilometers|miles|bytes|pixels|times)(?![^\W_])"
)
# A placeholder beside a number is one: 1/{x}, {x} of 17.
_NUMBER_BEFORE, _NUMBER_BEHIND = re.compile(r"\d[-–/x×]\Z"), re.compile(r"(?:[-–/x×]|\s?(?:to|of)\s)\d")
_TAGS = re.compile(r"<[^<>]*>|[*~]+")
_UNCLEAR = re.compile(r"[\W\d_]+|%(?:\d+\$)?[s@]|\W*[a-z]\W*")  # {0}, {}, %s, {x}
_BEFORE_NUMBERS = frozenset("$€£¥#№")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sentence with stand-ins for some of its placeholders."""

    original: MarkedSentence  # without any
    known: StandIns
    tries: tuple[int, ...]  # of each placeholder: the kind of stand-in that is tried
    sentence: MarkedSentence  # with these stand-ins
    num_tried: int = 1

    @classmethod
    def first(cls, original: MarkedSentence, known: StandIns) -> "Attempt | None":
        """None: nothing can stand in for a placeholder of the sentence, or it has none."""
        if not has_words(original):
            return None
        num_words = sum(mark.kind == Kind.WORD for mark in original.marks)
        attempt = _attempt(original, known, (0,) * num_words)
        return attempt if attempt.sentence.stood_in else None

    def next(self, texts: Sequence[str]) -> "Attempt | None":
        """The attempt after this one, whose translations are `texts`, of the best hypothesis or several; None: each has
        all stand-ins."""
        lost = {
            word.number
            for word in self.sentence.stood_in
            if any(place_of(word.written, text) is None for text in texts)
        }
        if not lost:
            return None
        if self.num_tried >= _MAX_TRIES:
            return replace(self, sentence=replace(self.original, is_unsure=True))
        tries = tuple(kind + (number in lost) for number, kind in enumerate(self.tries))
        again = _attempt(self.original, self.known, tries)
        is_unsure = len(again.sentence.stood_in) < len(self.sentence.stood_in)
        sentence = replace(again.sentence, is_unsure=is_unsure or self.sentence.is_unsure)
        return replace(again, sentence=sentence, num_tried=self.num_tried + 1)


def has_words(sentence: MarkedSentence) -> bool:
    """Whether a sentence has placeholders, and not too many, that a word may stand in for."""
    return 0 < sum(mark.kind == Kind.WORD for mark in sentence.marks) <= _MAX_WORDS


def place_of(written: str, text: str) -> int | None:
    """Where a stand-in is in a translation; None: it is not there as a word, or more than once."""
    if text.count(written) != 1:
        return None
    found = _as_word(written).search(text)
    return found.start() if found else None


@lru_cache(maxsize=256)
def _as_word(written: str) -> re.Pattern[str]:
    """Numbers are no parts of longer ones. Words are none where their script has spaces."""
    if written[0].isdecimal():
        return re.compile(rf"(?<!\d)(?<!\d[.,:]){re.escape(written)}(?![.,:]?\d)")
    # Letters of scripts without spaces have no case.
    is_cased = any(letter.lower() != letter.upper() for letter in written)
    return re.compile(rf"(?<![^\W\d_]){re.escape(written)}(?![^\W\d_])" if is_cased else re.escape(written))


def _attempt(original: MarkedSentence, known: StandIns, tries: Sequence[int]) -> Attempt:
    """With the kinds of stand-ins that `tries` says, or the next that there are."""
    words = [mark for mark in original.marks if mark.kind == Kind.WORD]
    chosen: list[StandIn | None] = []
    tried = list(tries)
    for number, mark in enumerate(words):
        kinds = _kinds(mark, original.plain, known)
        free = None
        while free is None and tried[number] < len(kinds):
            free = next((each for each in kinds[tried[number]] if _is_free(each, original.plain, chosen)), None)
            tried[number] += free is None
        chosen.append(free)
    return Attempt(original, known, tuple(tried), _with_stand_ins(original, chosen))


def _kinds(mark: Placed, plain: str, known: StandIns) -> list[Sequence[StandIn]]:
    """What may stand in for a mark of the sentence `plain`, in the order in which it is tried."""
    numbers = [[StandIn(form, form) for form in forms] for forms in NUMBERS] if known.numbers else []
    text = _TAGS.sub("", mark.text) or mark.text  # of `<b>{n}</b>`, which is a mark as a whole
    if (
        _NUMBER.fullmatch(text)
        or mark.before in _BEFORE_NUMBERS
        or _UNIT_BEHIND.match(plain, mark.at)
        or _NUMBER_BEHIND.match(plain, mark.at)
        or _NUMBER_BEFORE.search(plain, max(0, mark.at - 2), mark.at)
    ):
        return [*numbers]
    for names, form in ((_TIME, 1), (_YEAR, 3)):
        if numbers and names.fullmatch(text):
            return [numbers[form], *numbers[:form], *numbers[form + 1 :]]
    if _DAY.fullmatch(text):
        return [known.days, *numbers]
    return [known.names, *numbers] if _UNCLEAR.fullmatch(text) else [known.names]


def _is_free(stand_in: StandIn, plain: str, chosen: Sequence[StandIn | None]) -> bool:
    """Whether a stand-in can be told from everything else in the sentence and in its translation."""
    others = [plain, *(text for other in chosen if other for text in (other.form, other.written))]
    return not any(
        own in other or other in own for own in (stand_in.form, stand_in.written) for other in others if other
    )


def _with_stand_ins(original: MarkedSentence, chosen: Sequence[StandIn | None]) -> MarkedSentence:
    """The sentence with a stand-in for each word that has one, and the blanks that its source has beside it."""
    numbers = iter(range(len(chosen)))
    number_of = {index: next(numbers) for index, mark in enumerate(original.marks) if mark.kind == Kind.WORD}
    standing = {index: stand_in for index, number in number_of.items() if (stand_in := chosen[number])}
    first_at = {original.marks[index].at: index for index in reversed(standing)}
    last_at = {original.marks[index].at: index for index in standing}
    plain, done = "", 0
    marks: list[Placed] = []
    index_of: dict[int, int] = {}  # of the marks that stay
    stood_in: list[StoodIn] = []
    for index, mark in enumerate(original.marks):
        plain += original.plain[done : mark.at]
        done = mark.at
        following = original.plain[done : done + 1]
        if mark.before.isspace() and index <= last_at.get(done, -1) and plain and not plain[-1].isspace():
            plain += " "
        if index in standing:
            stand_in = standing[index]
            stood_in.append(StoodIn(mark.text, number_of[index], len(plain), stand_in.form, stand_in.written))
            plain += stand_in.form
        else:
            index_of[index] = len(marks)
            marks.append(replace(mark, at=len(plain)))
        if mark.behind.isspace() and index >= first_at.get(done, len(original.marks)) and following.strip():
            plain += " "
    plain += original.plain[done:]
    for mark in marks:
        mark.partner = None if mark.partner is None else index_of[mark.partner]
    return replace(original, plain=plain, marks=tuple(marks), stood_in=tuple(stood_in))


def survivors(known: StandIns, through: StandIns) -> StandIns:
    """Of the stand-ins of one model those that come through a second one as well, unchanged by both."""
    names, days = (
        tuple(word for word in own if word.form == word.written and word in others)
        for own, others in ((known.names, through.names), (known.days, through.days))
    )
    return StandIns(known.numbers and through.numbers, names, days)
