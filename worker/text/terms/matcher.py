"""
Terms in a text: the longest from the left, none within another.

    heavy -> rain -> {"heavy rain": Starkregen}       a trie over words; a term that may be a part of a word is in a
    rain  -> {"rain": Regen}                          second one, over characters

A text costs O(its words) as long as no term begins in it, however many terms there are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jobs.terms.glossary import Glossary
from jobs.terms.term import Term
from worker.text.terms.words import Unit, joined, units

_TERMS = ""  # the key of a node's terms: no unit is empty


@dataclass(frozen=True, slots=True)
class FoundTerm:
    """A term of a text."""

    start: int  # in characters of the text
    stop: int
    term: Term


class TermMatcher:
    """The terms of a glossary."""

    def __init__(self, terms: Iterable[Term]) -> None:
        """Of two terms that are equal but for their case, the one that is written so comes first; of two that are
        equal, the first."""
        self._of_words: dict[str, Any] = {}
        self._of_characters: dict[str, Any] = {}
        for term in terms:
            node = self._of_words if term.is_whole else self._of_characters
            found = [unit.folded for unit in units(term.source)]
            for step in found if term.is_whole else " ".join(found):
                node = node.setdefault(step, {})
            known = node.setdefault(_TERMS, [])
            known.append(term)
            known.sort(key=lambda term: not term.source_is_cased)

    def find(self, text: str) -> list[FoundTerm]:
        """The terms of a text, in their order."""
        found = units(text)
        matches = self._whole(found)
        if self._of_characters:
            matches = _longest([*matches, *self._parts(found)])
        return matches

    def _whole(self, found: Sequence[Unit]) -> list[FoundTerm]:
        matches = []
        root, at = self._of_words, 0
        while at < len(found):
            node, end, best = root.get(found[at].folded), at + 1, None
            while node is not None:
                if _TERMS in node and (term := _cased(node[_TERMS], found[at:end])):
                    best = FoundTerm(found[at].start, found[end - 1].stop, term)
                    longest = end
                node = node.get(found[end].folded) if end < len(found) else None
                end += 1
            if best is None:
                at += 1
            else:
                matches.append(best)
                at = longest
        return matches

    def _parts(self, found: Sequence[Unit]) -> list[FoundTerm]:
        """The terms that may be parts of words. Their places are those of whole words."""
        text = " ".join(unit.folded for unit in found)
        of_character = [index for index, unit in enumerate(found) for _ in range(len(unit.folded) + 1)]
        matches = []
        for at in range(len(text)):
            node, end = self._of_characters.get(text[at]), at + 1
            while node is not None:
                if _TERMS in node:
                    own = found[of_character[at] : of_character[end - 1] + 1]
                    source = joined(own, is_cased=True)
                    for term in node[_TERMS]:
                        if not term.source_is_cased or joined(units(term.source), is_cased=True).strip() in source:
                            matches.append(FoundTerm(own[0].start, own[-1].stop, term))
                            break
                node = node.get(text[end]) if end < len(text) else None
                end += 1
        return matches


@lru_cache(maxsize=8)
def matcher_of(glossary: Glossary) -> TermMatcher:
    """The matcher of all terms of a glossary."""
    return TermMatcher(glossary.terms())


def has_target(term: Term, translation: Sequence[Unit]) -> bool:
    """Whether a translation holds the target of a term, or one of its forms."""
    text = joined(translation, is_cased=term.target_is_cased)
    for target in term.targets:
        wanted = joined(units(target), is_cased=term.target_is_cased)
        if (wanted if term.is_whole else wanted.strip()) in text:
            return True
    return False


def _cased(terms: Sequence[Term], found: Sequence[Unit]) -> Term | None:
    """The first of the terms that is written so."""
    for term in terms:
        if not term.source_is_cased or [unit.cased for unit in units(term.source)] == [unit.cased for unit in found]:
            return term
    return None


def _longest(matches: Sequence[FoundTerm]) -> list[FoundTerm]:
    """Those that are within no other: from the left, of several that begin at one place the longest."""
    kept: list[FoundTerm] = []
    for match in sorted(matches, key=lambda match: (match.start, match.start - match.stop)):
        if not kept or match.start >= kept[-1].stop:
            kept.append(match)
    return kept
