"""A text as the units by which terms are found: words; in a script without spaces, letters; and signs."""

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from worker.text.word_alignment import SPACELESS


class Unit(NamedTuple):
    """A word, a letter of a script without spaces, or a sign."""

    start: int  # in characters of the text
    stop: int
    cased: str  # in the form NFKC
    folded: str  # the same in one case


def units(text: str) -> list[Unit]:
    """The units of a text, in their order; white space is none. Takes O(length)."""
    if text.isascii():
        return [Unit(*found.span(), found[0], found[0].lower()) for found in _ASCII.finditer(text)]
    return [Unit(*found.span(), *_forms(found[0])) for found in _pattern().finditer(text)]


def joined(found: Sequence[Unit], *, is_cased: bool) -> str:
    """The units with a space before, between and behind them, in which those of a term are looked for."""
    return f" {' '.join(unit.cased if is_cased else unit.folded for unit in found)} "


@lru_cache(maxsize=1 << 14)
def _forms(unit: str) -> tuple[str, str]:
    cased = unicodedata.normalize("NFKC", unit)
    return cased, unicodedata.normalize("NFKC", cased.casefold())


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    """Marks (Mn, Mc, Me), which `\\w` lacks, belong to the letter before them."""
    marks = _class([code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"])
    spaceless = "".join(f"{chr(first)}-{chr(last)}" for first, last in SPACELESS)
    return re.compile(f"(?:(?![{spaceless}])[\\w{marks}])+|(?:[{spaceless}]|[^\\s])[{marks}]*")


def _class(codes: list[int]) -> str:
    """The content of a character class, in ranges."""
    parts, first = [], codes[0]
    for code, following in zip(codes, [*codes[1:], -1], strict=True):
        if following != code + 1:
            parts.append(f"{chr(first)}-{chr(code)}")
            first = following
    return "".join(parts)


_ASCII = re.compile(r"\w+|[^\s]")
