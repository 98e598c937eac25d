"""Weather bulletins in a controlled English, each sentence with its exact Chinese.

Knows: how `rules` expand, and the structure of a bulletin. Does not know: files, tokens, training.
Everything is drawn from the `random.Random` that the caller seeds, so a seed determines a corpus.

A checksum of the English holds out one sentence of four: training never uses it, and the unseen bulletins consist of
such sentences alone. So "unseen" holds by construction, for every seed and every size of corpus.
"""

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple

from tools.demo.rules import RULES, WORDS

MAX_WORDS = 36  # of an English sentence: longer ones are bad English, and a model of this size does not learn them
HELD_OUT_PART = 4  # one sentence of so many is never used for training
TITLE_SHARE = 0.6  # of the bulletins have a title
FOCUS_SHARE = 0.8  # of the places and days in a bulletin are those of its focus
SECTIONS = ("overview", "forecast", "hazard")  # each is a symbol of the rules and at most one paragraph

_SLOT = re.compile(r"\{(\w+)\}")
_WRONG_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou]|8|1[18]\b)")  # "a 80% chance", "a upper disturbance"

Word = tuple[str, str]  # its English and Chinese form
Focus = dict[str, tuple[Word, ...]]  # for a symbol, the words that a bulletin is about
Accept = Callable[[str], bool]  # whether an English sentence may be used


class Pair(NamedTuple):
    """An English sentence and its Chinese translation."""

    english: str
    chinese: str


@dataclass(frozen=True, slots=True)
class Derivation:
    """How the rules made a sentence and its translation, or a part of both: the words of a rule, with what stands in
    its slots; without slots, a word."""

    english: str  # with {slots}
    chinese: str
    slots: Mapping[str, "Derivation"]

    @property
    def pair(self) -> Pair:
        pairs = {slot: part.pair for slot, part in self.slots.items()}
        return Pair(
            self.english.format_map({slot: pair.english for slot, pair in pairs.items()}),
            self.chinese.format_map({slot: pair.chinese for slot, pair in pairs.items()}),
        )


@dataclass(frozen=True, slots=True)
class Bulletin:
    """A document: paragraphs of sentences. A title is a paragraph of its own, without a full stop."""

    station: str  # its main place
    paragraphs: tuple[tuple[Pair, ...], ...]

    @property
    def sentences(self) -> list[Pair]:
        return [pair for paragraph in self.paragraphs for pair in paragraph]

    @property
    def english(self) -> str:
        return "\n\n".join(" ".join(pair.english for pair in paragraph) for paragraph in self.paragraphs)

    @property
    def chinese(self) -> str:
        return "\n\n".join("".join(pair.chinese for pair in paragraph) for paragraph in self.paragraphs)


def training_pairs(count: int, seed: int) -> list[Pair]:
    """Distinct sentences and titles, none of them held out."""
    rng = Random(seed)
    pairs: dict[str, Pair] = {}
    while len(pairs) < count:
        pair, _derivation = _draw_trained(rng)
        pairs[pair.english] = pair
    return list(pairs.values())


def training_derivations(count: int, seed: int) -> Iterator[tuple[Pair, Derivation]]:
    """Sentences and titles, none of them held out, and how each was made."""
    rng = Random(f"training derivations {seed}")
    for _ in range(count):
        yield _draw_trained(rng)


def unseen_bulletins(count: int, seed: int) -> Iterator[Bulletin]:
    """Bulletins without any sentence or title of the training pairs, for all seeds."""
    rng = Random(f"unseen {seed}")  # a text seed, unlike the number that seeds the training corpus
    for _ in range(count):
        yield bulletin(rng, is_held_out)


def unseen_derivations(count: int, seed: int) -> Iterator[tuple[Pair, Derivation]]:
    """Sentences that training never uses, and how each was made."""
    rng = Random(f"derivations {seed}")
    for _ in range(count):
        yield _draw_derived(rng, {}, rng.choice(SECTIONS), is_held_out)


def is_held_out(english: str) -> bool:
    """Whether a sentence is never used for training."""
    return zlib.crc32(english.encode()) % HELD_OUT_PART == 0


def bulletin(rng: Random, accept: Accept = lambda english: True) -> Bulletin:
    """A document about a few places and days; `accept`: whether a sentence may be used."""
    station, *nearby = rng.sample(WORDS["place"], rng.randint(2, 4))
    first_day = rng.randrange(7)
    days = tuple(WORDS["day"][(first_day + offset) % 7] for offset in range(3))
    focus = {"place": (station, station, *nearby), "day": days}
    paragraphs: list[tuple[Pair, ...]] = []
    if rng.random() < TITLE_SHARE:
        paragraphs.append((_draw(rng, focus, "title", accept),))
    first_section = rng.randrange(len(SECTIONS))
    for symbol in SECTIONS[first_section:]:
        num_sentences = rng.randint(2, 4)
        paragraphs.append(tuple(_draw(rng, focus, symbol, accept) for _ in range(num_sentences)))
    return Bulletin(station=station[0], paragraphs=tuple(paragraphs))


def _draw_trained(rng: Random) -> tuple[Pair, Derivation]:
    symbol = rng.choice((*SECTIONS, *SECTIONS, *SECTIONS, "title"))
    return _draw_derived(rng, {}, symbol, lambda english: not is_held_out(english))


def _draw(rng: Random, focus: Focus, symbol: str, accept: Accept) -> Pair:
    """Draw sentences of a symbol until one is accepted."""
    return _draw_derived(rng, focus, symbol, accept)[0]


def _draw_derived(rng: Random, focus: Focus, symbol: str, accept: Accept) -> tuple[Pair, Derivation]:
    full_stop = Pair("", "") if symbol == "title" else Pair(".", "。")
    while True:
        derivation = _expand(symbol, _Words(rng, focus))
        english, chinese = derivation.pair
        english = english[0].upper() + english[1:] + full_stop.english
        english = _WRONG_ARTICLE.sub(r"\1n ", english)
        if len(english.split()) <= MAX_WORDS and accept(english):
            return Pair(english, chinese + full_stop.chinese), derivation


def _expand(symbol: str, words: "_Words") -> Derivation:
    if symbol in _NUMBERS:
        return Derivation(*_NUMBERS[symbol](words.rng), {})
    if symbol in WORDS:
        return Derivation(*words.take(symbol), {})
    english, chinese = words.rng.choice(RULES[symbol])
    slots = {slot: _expand(slot.rstrip("0123456789"), words) for slot in _slots(english)}
    return Derivation(english, chinese, slots)


@cache
def _slots(side: str) -> list[str]:
    return _SLOT.findall(side)


class _Words:
    """The words of one sentence. No word is used twice: a road leads from one place to another."""

    def __init__(self, rng: Random, focus: Focus) -> None:
        self.rng = rng
        self._focus = focus
        self._taken: set[Word] = set()

    def take(self, symbol: str) -> Word:
        choices = WORDS[symbol]
        if symbol in self._focus and self.rng.random() < FOCUS_SHARE:
            choices = self._focus[symbol]
        free = [word for word in choices if word not in self._taken]
        word = self.rng.choice(free or WORDS[symbol])
        self._taken.add(word)
        return word


def _integer(smallest: int, largest: int) -> Callable[[Random], Pair]:
    def draw(rng: Random) -> Pair:
        digits = str(rng.randint(smallest, largest))
        return Pair(digits, digits)

    return draw


def _tenths(smallest: int, largest: int) -> Callable[[Random], Pair]:
    """Decimals with one digit after the point."""

    def draw(rng: Random) -> Pair:
        digits = f"{rng.randint(smallest, largest) / 10:.1f}"
        return Pair(digits, digits)

    return draw


def _span(smallest: int, largest: int) -> Callable[[Random], Pair]:
    def draw(rng: Random) -> Pair:
        low = rng.randint(smallest, largest)
        high = low + rng.randint(1, 30)
        return Pair(f"{low} to {high}", f"{low}至{high}")

    return draw


def _clock(rng: Random) -> Pair:
    time = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}"
    return Pair(time, time)


def _clock_span(rng: Random) -> Pair:
    early, late = sorted(rng.sample(range(24 * 60), 2))
    times = [f"{minute // 60:02d}:{minute % 60:02d}" for minute in (early, late)]
    return Pair(" and ".join(times), "至".join(times))


_NUMBERS: dict[str, Callable[[Random], Pair]] = {
    "warmth": _integer(0, 45),  # degrees above zero
    "frost": _integer(1, 45),  # degrees below zero
    "kmh": _integer(5, 180),
    "kmh_span": _span(5, 140),
    "mm": _tenths(1, 999),
    "mm_span": _span(1, 120),
    "cm": _integer(2, 150),
    "cm_span": _span(2, 90),
    "percent": _integer(5, 100),
    "metres": _integer(20, 990),  # of visibility
    "waves": _tenths(5, 149),  # metres
    "pressure": _integer(950, 1049),
    "drop": _integer(2, 30),  # of pressure
    "hours": _integer(3, 72),
    "clock": _clock,
    "clock_span": _clock_span,
}
