"""Questions that a weather bulletin answers, in other words than the bulletin's.

    question = ask(Random(1), document)      # None where the bulletin states no fact that can be asked for
    answers(question, document)              # True, and for hardly any other bulletin

Knows: how to find the facts in a text that follows `rules`, how to ask for one, which texts answer a question.
Does not know: files, training, retrieval. As for bulletins, a seed determines a question.

A question names a place of its bulletin, mostly a day or an amount, and the phenomenon by another name: "a downpour"
for heavy rain, "the day after Tuesday" for Wednesday. So a comparison of words finds the place and little else.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from tools.demo import lexicon
from tools.demo.paraphrases import DAYS, REGIONS, THINGS
from tools.demo.question_frames import KINDS
from tools.demo.rules import RULES, WORDS

SPELLED_SHARE = 0.5  # of the whole numbers below 100 are written in words

_SLOT = re.compile(r"\{(\w+?)(\d*)\}")
_NUMBERS = {
    "mm": r"\d+\.\d",
    "waves": r"\d+\.\d",
    "kmh_span": r"\d+ to \d+",
    "mm_span": r"\d+ to \d+",
    "cm_span": r"\d+ to \d+",
    "clock": r"\d\d:\d\d",
    "clock_span": r"\d\d:\d\d and \d\d:\d\d",
}
_THING_SLOTS = (
    "route",
    "fall",
    "showers",
    "haze",
    "sky",
    "system",
    "strength",
    "warning",
    "advice",
)  # the first that a clause has
_AMOUNT_SLOTS = ("degrees", "speed", "kmh", "rainfall", "snowfall", "percent", "metres", "pressure", "cm", "waves")
_UNITS = {"kmh": "km/h", "metres": "metres", "pressure": "hPa", "cm": "cm", "waves": "metres"}
_ROUTE = re.compile(r"road|pass|bridge|tunnel|railway|airport|harbour")
_DAY_NAMES = [english for english, _ in lexicon.DAYS]
_PLACE = re.compile("|".join(english for english, _ in (*lexicon.PLACES, *lexicon.REGIONS)))
_DAY = re.compile("|".join(_DAY_NAMES))
_ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


@dataclass(frozen=True, slots=True)
class Fact:
    """The content of a clause."""

    kind: str  # a key of KINDS
    places: tuple[str, ...]  # places and regions, as the bulletin writes them; at least one
    day: str | None  # the first day in the clause
    thing: str | None  # a key of THINGS
    amount: str | None  # with its unit, as the bulletin writes it


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the parts of a fact that it names; None: not named."""

    text: str
    kind: str
    place: str
    day: str | None
    thing: str | None
    amount: str | None


def ask(rng: Random, text: str) -> Question | None:
    """A question for one of the facts in a bulletin (its English); None where it has none."""
    stated = facts(text)
    return ask_for(rng, rng.choice(stated)) if stated else None


def ask_for(rng: Random, fact: Fact) -> Question | None:
    """A question for this fact; None where it lacks a part for every frame of its kind."""
    frames = [frame for frame in KINDS[fact.kind].frames if _can_fill(frame, fact)]
    if not frames:
        return None
    frame = rng.choice(frames)
    place = rng.choice(fact.places)
    words = {"place": rng.choice(REGIONS[place]) if place in REGIONS else place}
    if fact.day and "{day}" in frame:
        words["day"] = _day(rng, fact.day)
    if fact.thing and "{thing}" in frame:
        words["thing"] = rng.choice(THINGS[fact.thing])
    if fact.amount and "{amount}" in frame:
        words["amount"] = _amount(rng, fact.amount)
    question = frame.format_map(words)
    return Question(
        text=question[0].upper() + question[1:],
        kind=fact.kind,
        place=place,
        day=fact.day if "day" in words else None,
        thing=fact.thing if "thing" in words else None,
        amount=fact.amount if "amount" in words else None,
    )


def answers(question: Question, text: str) -> bool:
    """Whether a bulletin (its English) has a fact with every part that the question names."""
    if question.place not in text:  # true for most texts, and quick
        return False
    return any(
        fact.kind == question.kind
        and question.place in fact.places
        and question.day in (None, fact.day)
        and question.thing in (None, fact.thing)
        and question.amount in (None, fact.amount)
        for fact in facts(text)
    )


def facts(text: str) -> list[Fact]:
    """The facts in the clauses of a bulletin, in the order of KINDS. Conditions ("if ...") are not facts."""
    return [
        _fact(kind, found) for kind, marker, clause in _clauses() if marker in text for found in clause.finditer(text)
    ]


def _fact(kind: str, found: re.Match[str]) -> Fact:
    groups = {name: value for name, value in found.groupdict().items() if value is not None}
    whole = found.group()
    day = _DAY.search(whole)
    thing = next((groups[slot] for slot in _THING_SLOTS if slot in groups), None)
    if thing and "route" in groups:
        head = _ROUTE.search(thing)
        thing = head.group() if head else None
    slot = next((slot for slot in _AMOUNT_SLOTS if slot in groups), None)
    return Fact(
        kind=kind,
        places=tuple(dict.fromkeys(_PLACE.findall(whole))),
        day=day.group() if day else None,
        thing=thing[0].lower() + thing[1:] if thing else None,
        amount=" ".join(filter(None, (groups[slot], _UNITS.get(slot)))) if slot else None,
    )


def _can_fill(frame: str, fact: Fact) -> bool:
    parts = {"day": fact.day, "thing": fact.thing, "amount": fact.amount}
    return all(value is not None for part, value in parts.items() if f"{{{part}}}" in frame)


def _day(rng: Random, day: str) -> str:
    number = _DAY_NAMES.index(day)
    return rng.choice(DAYS).format(day=day, before=_DAY_NAMES[number - 1], after=_DAY_NAMES[(number + 1) % 7])


def _amount(rng: Random, amount: str) -> str:
    spell = rng.random() < SPELLED_SHARE
    return re.sub(r"(?<![\d.])\d\d?(?![\d.])", lambda number: _spelled(number.group()), amount) if spell else amount


def _spelled(digits: str) -> str:
    tens, ones = divmod(int(digits), 10)
    if tens < 2:
        return (_ONES, _TEENS)[tens][ones]
    return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")


@cache
def _clauses() -> Sequence[tuple[str, str, re.Pattern[str]]]:
    """(kind, a piece of text that every clause of this form contains, its regular expression)."""
    compiled = []
    for kind, (clauses, _) in KINDS.items():
        for clause in clauses:
            pieces = [piece for piece in re.split(r"\{\w+\}", clause) if piece]
            # Not the beginning of the clause, where the first letter may be a capital.
            marker = max((piece for piece in pieces if not clause.startswith(piece)), key=len)
            compiled.append((kind, marker, re.compile(_expression(clause), re.IGNORECASE)))
    return compiled


def _expression(clause: str) -> str:
    """A regular expression of a clause, with a group for the first slot of each symbol."""
    expression, start = r"\b", 0
    for slot in _SLOT.finditer(clause):
        symbol, digit = slot.groups()
        expression += re.escape(clause[start : slot.start()])
        expression += f"(?:{_symbol(symbol)})" if digit else f"(?P<{symbol}>{_symbol(symbol)})"
        start = slot.end()
    return expression + re.escape(clause[start:])


@cache
def _symbol(symbol: str) -> str:
    """A regular expression of all expansions of a symbol."""
    if symbol in WORDS:
        return "|".join(sorted((re.escape(english) for english, _ in WORDS[symbol]), key=len, reverse=True))
    if symbol not in RULES:
        return _NUMBERS.get(symbol, r"\d+")
    sides = []
    for english in dict.fromkeys(english for english, _ in RULES[symbol]):
        start, side = 0, ""
        for slot in _SLOT.finditer(english):
            side += re.escape(english[start : slot.start()]) + f"(?:{_symbol(slot.group(1))})"
            start = slot.end()
        sides.append(side + re.escape(english[start:]))
    return "|".join(sides)
