"""
Which words of a sentence of the grammar its Chinese words come from: the alignment that a model should find.

A rule and its words are pairs of phrases. A link within a pair of phrases is possible; it is sure where one of the two
has a single word, since then no other link can be (Och and Ney 2003, "A Systematic Comparison of Various Statistical
Alignment Models", section 6). A link between words of two pairs is wrong. A number is linked to itself.

Knows: how the grammar made a sentence. Does not know: models.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tools.demo.grammar import Derivation, Pair, training_derivations, unseen_derivations
from worker.text.word_alignment import words

Link = tuple[int, int]  # a word of the English, one of the Chinese

_SLOT = re.compile(r"\{(\w+)\}")
_NUMBER = re.compile(r"[\d.:]+")


@dataclass(frozen=True, slots=True)
class LinkedPair:
    """A sentence, its translation, and the links between their words."""

    english: str
    chinese: str
    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure ones included
    english_phrases: tuple[str, ...]  # of each word the phrase that it belongs to; within /where/area is /where
    chinese_phrases: tuple[str, ...]


def unseen_linked_pairs(count: int, seed: int) -> Iterator[LinkedPair]:
    """Sentences that training never uses."""
    return (_linked(*derived) for derived in unseen_derivations(count, seed))


def training_linked_pairs(count: int, seed: int) -> Iterator[LinkedPair]:
    """Sentences and titles that training may use."""
    return (_linked(*derived) for derived in training_derivations(count, seed))


def error_rate(found: Collection[Any], sure: Collection[Any], possible: Collection[Any]) -> float:
    """The alignment error rate, 1 - (|A & S| + |A & P|) / (|A| + |S|) (Och and Ney 2003, section 6). Of a corpus, give
    the links of all its sentences, each with the number of its sentence."""
    found, sure, possible = set(found), set(sure), set(possible)
    return 1 - (len(found & sure) + len(found & possible)) / (len(found) + len(sure))


def _linked(pair: Pair, derivation: Derivation) -> LinkedPair:
    english, chinese = (_phrases(derivation, side) for side in ("english", "chinese"))
    assert len(words(pair.english)) == len(english)
    assert len(words(pair.chinese)) == len(chinese)
    sure, possible = _links(english, chinese)
    return LinkedPair(pair.english, pair.chinese, frozenset(sure), frozenset(possible), tuple(english), tuple(chinese))


def _phrases(derivation: Derivation, side: str, path: str = "") -> list[str]:
    """For each word of a side, in order, the name of the phrase that it belongs to."""
    phrases: list[str] = []
    text: str = getattr(derivation, side)
    for index, piece in enumerate(_SLOT.split(text)):
        if index % 2:
            phrases += _phrases(derivation.slots[piece], side, f"{path}/{piece}")
        else:
            numbers = 0
            for start, stop in words(piece):
                is_number = not derivation.slots and _NUMBER.fullmatch(piece[start:stop])
                phrases.append(f"{path}#{numbers}" if is_number else path)
                numbers += bool(is_number)
    return phrases


def _links(english: list[str], chinese: list[str]) -> tuple[set[Link], set[Link]]:
    """The sure and the possible links."""
    at: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, phrases in enumerate((english, chinese)):
        for word, phrase in enumerate(phrases):
            at[phrase][side].append(word)
    sure, possible = set(), set()
    for sources, targets in at.values():
        links = {(i, j) for i in sources for j in targets}
        possible |= links
        if min(len(sources), len(targets)) == 1:
            sure |= links
    return sure, possible
