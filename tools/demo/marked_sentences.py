"""
Sentences of the grammar with random marks, and whether a translation has them where they should be.

Knows: the grammar's own alignments. Does not know: models.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tools.demo.word_links import LinkedPair
from worker.text.word_alignment import words

KINDS = ("phrase", "run", "alone", "number", "name", "address", "several", "torn")  # `bench.marks` says what they are
RIGHT, TOLERABLE, WRONG = "right", "tolerable", "wrong"

_URL = "https://stations.example.org/7"
_PAIR = re.compile("<b>(.*?)</b>", re.DOTALL)
_NAMES = re.compile(r"/place[0-9]?$")


@dataclass(frozen=True, slots=True)
class Pair:
    """Where <b> and </b> may stand in the Chinese: around the words `needed` and none but those `allowed`."""

    needed: frozenset[int]
    allowed: frozenset[int]


@dataclass(frozen=True, slots=True)
class Marked:
    """A sentence with marks, and what is right."""

    kind: str
    text: str
    plain: LinkedPair
    marks: tuple[str, ...]
    pair: Pair | None = None
    places: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())  # of <x/>: right, and tolerable
    words: tuple[tuple[str, str], ...] = ()  # a placeholder, and the Chinese that it stands for


def marked(kind: str, pair: LinkedPair, rng: Random) -> Marked | None:
    """The English of a pair with marks of a kind; None: it has no word for them."""
    english = words(pair.english)
    if kind == "several":
        word = marked(rng.choice(["number", "name"]), pair, rng)
        phrase = _around_phrase(pair, rng)
        if word is None or phrase is None:
            return None
        (mark, _chinese), (first, last), where = word.words[0], phrase[0], _word_of(word, pair)
        text = _wrapped(pair.english, english[first][0], english[last][1], where, mark)
        return None if text is None else Marked(kind, text, pair, (mark, "<b>", "</b>"), phrase[1], words=word.words)
    if kind in ("number", "name", "address"):
        return _with_word(kind, pair, rng)
    if kind == "alone":
        return _before_word(pair, rng)
    around = _around_phrase(pair, rng) if kind == "phrase" else _around_run(pair, rng, is_torn=kind == "torn")
    if around is None:
        return None
    (first, last), wanted = around
    start, stop = english[first][0], english[last][1]
    text = f"{pair.english[:start]}<b>{pair.english[start:stop]}</b>{pair.english[stop:]}"
    return Marked(kind, text, pair, ("<b>", "</b>"), wanted)


def judge(one: Marked, text: str) -> str:
    """Whether the marks of a translation are where they should be."""
    if any(text.count(mark) != 1 for mark in one.marks):
        return WRONG
    verdicts = []
    for mark, chinese in one.words:
        without_pair = text.replace("<b>", "").replace("</b>", "")
        verdicts.append(_of_word(without_pair, mark, chinese, one.plain.chinese))
        text = text.replace(mark, chinese)
    if one.pair is not None:
        verdicts.append(_of_pair(text, one.pair, one.plain.chinese))
    if any(one.places):
        at = text.index("<x/>")
        is_same = text.replace("<x/>", "") == one.plain.chinese
        right, tolerable = one.places
        verdicts.append(RIGHT if is_same and at in right else TOLERABLE if is_same and at in tolerable else WRONG)
    return max(verdicts, key=(RIGHT, TOLERABLE, WRONG).index)


def _of_word(text: str, mark: str, chinese: str, sentence: str) -> str:
    before, behind = sentence.split(chinese)
    if text == before + mark + behind:
        return RIGHT
    left, right = text.split(mark)
    return TOLERABLE if left[-1:] == before[-1:] or right[:1] == behind[:1] else WRONG


def _of_pair(text: str, pair: Pair, sentence: str) -> str:
    found = _PAIR.search(text)
    if found is None or text.replace("<b>", "").replace("</b>", "") != sentence:
        return WRONG
    start, stop = found.start(), found.end() - len("<b></b>")
    inside = {j for j, (begin, end) in enumerate(words(sentence)) if start <= begin and end <= stop}
    if pair.needed <= inside <= pair.allowed:
        return RIGHT
    return TOLERABLE if inside & pair.needed else WRONG


def _word_of(word: Marked, pair: LinkedPair) -> tuple[int, int]:
    """Where the word stands that a placeholder stands for."""
    start = word.text.index(word.marks[0])
    return start, start + len(pair.english) - len(word.text) + len(word.marks[0])


def _wrapped(text: str, start: int, stop: int, word: tuple[int, int], mark: str) -> str | None:
    """The text with a pair around a part, and a placeholder for a word; None: the word is the whole part, or sticks out
    of it."""
    begin, end = word
    if begin <= start and stop <= end:
        return None
    if end <= start:
        return f"{text[:begin]}{mark}{text[end:start]}<b>{text[start:stop]}</b>{text[stop:]}"
    if begin >= stop:
        return f"{text[:start]}<b>{text[start:stop]}</b>{text[stop:begin]}{mark}{text[end:]}"
    if start <= begin and end <= stop:
        return f"{text[:start]}<b>{text[start:begin]}{mark}{text[end:stop]}</b>{text[stop:]}"
    return None


def _around_phrase(pair: LinkedPair, rng: Random) -> tuple[tuple[int, int], Pair] | None:
    """The first and last word of a phrase that has one place in each language, and where its pair should be."""
    english, chinese = (_places_of_phrases(phrases) for phrases in (pair.english_phrases, pair.chinese_phrases))
    found = [name for name in english if name in chinese and _is_run(english[name]) and _is_run(chinese[name])]
    found = [name for name in found if len(english[name]) < len(pair.english_phrases)]
    if not found:
        return None
    name = rng.choice(sorted(found))
    target = frozenset(chinese[name])
    return (english[name][0], english[name][-1]), Pair(target, target)


def _around_run(pair: LinkedPair, rng: Random, *, is_torn: bool) -> tuple[tuple[int, int], Pair] | None:
    """The same of words in a row, whose translations are neighbours or torn apart."""
    num_words = len(pair.english_phrases)
    linked: dict[int, set[int]] = defaultdict(set)
    back: dict[int, set[int]] = defaultdict(set)
    for i, j in pair.possible:
        linked[i].add(j)
        back[j].add(i)
    unlinked = set(range(len(pair.chinese_phrases))) - set(back)
    found = []
    for first in range(num_words):
        for last in range(first, min(first + 5, num_words)):
            own = set(range(first, last + 1))
            allowed = set().union(*(linked[i] for i in own))
            needed = {j for j in allowed if back[j] <= own}
            if needed:
                torn = set(range(min(needed), max(needed) + 1)) - allowed - unlinked
                if bool(torn) == is_torn:
                    found.append(((first, last), Pair(frozenset(needed), frozenset(allowed | unlinked))))
    return rng.choice(found) if found else None


def _before_word(pair: LinkedPair, rng: Random) -> Marked | None:
    linked: dict[int, set[int]] = defaultdict(set)
    for i, j in pair.possible:
        linked[i].add(j)
    english, chinese = words(pair.english), words(pair.chinese)
    word = rng.choice([i for i in linked if i] or [0])
    if not linked[word]:
        return None
    is_first = pair.english_phrases[word - 1] != pair.english_phrases[word]
    starts = {j for j in linked[word] if j - 1 not in linked[word]}
    right = {chinese[j][0] for j in (starts if is_first else linked[word])}
    tolerable = {chinese[j][1] for j in linked[word - 1]}
    at = english[word][0]
    text = f"{pair.english[:at]}<x/>{pair.english[at:]}"
    return Marked("alone", text, pair, ("<x/>",), places=(frozenset(right), frozenset(tolerable)))


def _with_word(kind: str, pair: LinkedPair, rng: Random) -> Marked | None:
    """A placeholder for a number or a name that stands once in each language."""
    mark = {"number": "{n}", "name": "{name}", "address": _URL}[kind]
    english, chinese = (_places_of_phrases(phrases) for phrases in (pair.english_phrases, pair.chinese_phrases))
    found = []
    for name, places in english.items():
        is_kind = "#" in name if kind == "number" else _NAMES.search(name)
        if is_kind and _is_run(places) and _is_run(chinese.get(name, [])):
            (source, (start, stop)), (target, _span) = (
                _text_of(text, at) for text, at in ((pair.english, places), (pair.chinese, chinese[name]))
            )
            if _alone(source, pair.english) and _alone(target, pair.chinese):
                found.append((start, stop, target))
    if not found:
        return None
    start, stop, target = rng.choice(found)
    return Marked(kind, pair.english[:start] + mark + pair.english[stop:], pair, (mark,), words=((mark, target),))


def _alone(text: str, sentence: str) -> bool:
    """Whether a text is in a sentence once, and no part of a longer number."""
    return (
        sentence.count(text) == 1 and re.search(rf"[\d.:]{re.escape(text)}|{re.escape(text)}[.:]?\d", sentence) is None
    )


def _text_of(text: str, places: Sequence[int]) -> tuple[str, tuple[int, int]]:
    spans = words(text)
    start, stop = spans[places[0]][0], spans[places[-1]][1]
    return text[start:stop], (start, stop)


def _places_of_phrases(phrases: Sequence[str]) -> dict[str, list[int]]:
    """The words of each phrase, with those of the phrases within it."""
    found: dict[str, list[int]] = defaultdict(list)
    for word, phrase in enumerate(phrases):
        parts = phrase.replace("#", "/#").split("/")
        names = {"/".join(parts[:size]).replace("/#", "#") for size in range(2, len(parts) + 1)}
        for name in names:
            found[name].append(word)
    return found


def _is_run(places: Sequence[int]) -> bool:
    return bool(places) and places[-1] - places[0] + 1 == len(places)
