"""Where a text that has too many pieces for a model is split. Knows: pieces as text, with ▁ where a word starts."""

import unicodedata
from collections.abc import Sequence

_WORD_START = "▁"  # how SentencePiece writes a space


def split_pieces(pieces: Sequence[str], room: int) -> list[slice]:
    """Split pieces into parts of at most `room` pieces.

    Split where a word starts; else after a punctuation mark; else anywhere. room 4:

        ▁a b ▁c d e f g        ->   ▁a b · ▁c d e f · g
    """
    parts = []
    start = 0
    while start < len(pieces) - room:
        end = _last_cut(pieces, start, start + room)
        parts.append(slice(start, end))
        start = end
    return [*parts, slice(start, len(pieces))]


def _last_cut(pieces: Sequence[str], start: int, end: int) -> int:
    """The best index in the second half of pieces[start:end] to split at; `end` if none is better."""
    middle = start + (end - start) // 2
    for cut in range(end, middle, -1):
        if pieces[cut].startswith(_WORD_START):
            return cut
    for cut in range(end, middle, -1):
        if unicodedata.category(pieces[cut - 1][-1]).startswith("P"):
            return cut
    return end
