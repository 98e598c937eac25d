"""How much of a text a vocabulary lacks."""

import re
from collections.abc import Iterable

_SURROGATE = re.compile("[\ud800-\udfff]")


def share_of_characters(text: str, places: Iterable[tuple[int, int]]) -> float:
    """The share of a text's characters, white space aside, that lie in these spans (start and stop in UTF-8 bytes); 0
    for a text without characters.

    Characters and not tokens: SentencePiece makes one unknown token of any number of unknown characters in a row, so a
    whole sentence in Thai is one of two tokens.
    """
    spans = list(places)
    if not spans:
        return 0.0
    content = _SURROGATE.sub("\ufffd", text).encode()
    unknown = sum(_num_characters(content[start:stop]) for start, stop in spans)
    return min(unknown / max(_num_characters(content), 1), 1.0)


def _num_characters(content: bytes) -> int:
    return sum(not character.isspace() for character in content.decode(errors="ignore"))
