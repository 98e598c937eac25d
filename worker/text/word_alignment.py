"""
Words of a text, and which words of a sentence the words of its translation come from.

Knows: texts, as characters. Does not know: models, tokens; `engine` makes alignments.

Words follow the word boundaries of Unicode Standard Annex #29 (Unicode Text Segmentation), rules WB4 to WB13b, with two
differences: signs are no words, and in scripts without spaces every letter is a word of its own (in Katakana too),
since only a dictionary knows which letters belong together.
"""

import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Spans = tuple[tuple[int, int], ...]

# Scripts without spaces between words, by blocks of Unicode 16: Thai, Lao, Tibetan, Myanmar, Khmer, Tai Le, Tai Lue,
# Tai Tham, Hiragana, Katakana, Bopomofo, Han. Hangul has spaces.
SPACELESS = (
    (0x0E00, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19DF), (0x19E0, 0x19FF), (0x1A20, 0x1AAF), (0x2E80, 0x2FDF),
    (0x3005, 0x3007), (0x3021, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0xF900, 0xFAFF), (0xFF66, 0xFF9D), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF),
)  # fmt: skip
_STARTS = [first for first, _last in SPACELESS]
# Signs that are part of a word between two letters or two digits: MidLetter, MidNum, MidNumLet, Single_Quote and
# ExtendNumLet of the annex. Without the colon, which Swedish has within words and others after them.
_BETWEEN_BOTH = "._'\u2018\u2019\u2024\ufe52\uff07\uff0e"
_BETWEEN = {
    "letter": frozenset(_BETWEEN_BOTH + "\u00b7\u0387\u055f\u05f4\u2027"),
    "digit": frozenset(
        _BETWEEN_BOTH + ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which words of a sentence the words of its translation come from."""

    source: Spans  # start and stop in characters of each word of the sentence, in order
    target: Spans  # the same of the translation
    links: (
        Spans  # (i, j): word i of the sentence and word j of the translation; sorted, each once; a word may have none
    )
    # (J, I): how much of word j of the translation comes from word i of the sentence, rows that sum to 1, or to 0 where
    # that is not known; None: `links` alone are known.
    weights: NDArray[np.float64] | None = field(default=None, compare=False)

    def word_weights(self) -> NDArray[np.float64]:
        """`weights`; where links alone are known, equal ones for the links of a word."""
        if self.weights is not None:
            return self.weights
        found = np.zeros((len(self.target), len(self.source)))
        for i, j in self.links:
            if i < len(self.source) and j < len(self.target):
                found[j, i] = 1
        found /= np.maximum(found.sum(1, keepdims=True), 1)
        return found


def pharaoh(alignment: Alignment) -> str:
    """The links in the form of Pharaoh and Moses, `0-0 1-2`: source and target word, from 0."""
    return " ".join(f"{i}-{j}" for i, j in alignment.links)


def words(text: str) -> Spans:
    """Start and stop of each word: a run of letters and digits with their marks, such as `don't`, `3.5`, `mp3`, `a_b`;
    in a script without spaces every letter with its marks. A text of M characters takes O(M)."""
    found: list[tuple[int, int]] = []
    start, before = 0, ""  # of the word that is open, and the kind of its last character; "": none is open
    for at, character in enumerate(text):
        kind = _kind(character)
        if kind == "mark" or (before in _BETWEEN and _is_inside(text, at, before)):
            continue  # of the word that is open, if one is
        if not (kind in _BETWEEN and before in _BETWEEN):
            if before:
                found.append((start, at))
            start = at
        before = kind
    if before:
        found.append((start, len(text)))
    return tuple(found)


def is_spaceless(character: str) -> bool:
    """Whether a character is of a script without spaces between words."""
    block = bisect_right(_STARTS, ord(character)) - 1
    return block >= 0 and ord(character) <= SPACELESS[block][1]


def _is_inside(text: str, at: int, before: str) -> bool:
    """Whether the sign at `at` is between two letters, or two digits, and belongs to their word."""
    return text[at] in _BETWEEN[before] and at + 1 < len(text) and _kind(text[at + 1]) == before


@lru_cache(maxsize=1 << 14)
def _kind(character: str) -> str:
    """letter, digit, single (a letter that is a word), mark, or "" for a sign or a space."""
    match unicodedata.category(character):
        case "Mn" | "Mc" | "Me" | "Cf":
            return "mark"
        case "Nd" | "No":
            return "digit"
        case "Lu" | "Ll" | "Lt" | "Lm" | "Lo" | "Nl":
            return "single" if is_spaceless(character) else "letter"
        case _:
            return ""
