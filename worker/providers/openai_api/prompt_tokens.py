"""
Where the tokens of a prompt stand in its text, from their texts as a server gives them.

    text     a    n    ␣    雨
    tokens   "an"   " "   ""  "\\ufffd"   ""          the last three are parts of one character

A token that is part of a character has no text of its own: servers give an empty one, or U+FFFD. Such a run of tokens
is as long as what lies between the tokens around it. Where it has as many tokens as bytes, each has one; else nobody
knows where the tokens end, and the first one gets all bytes of the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_PART = "\ufffd"


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Bytes of the text in UTF-8; [start, stop)."""

    start: int
    stop: int


def place_tokens(text: str, tokens: Sequence[str]) -> list[TokenPlace] | None:
    """The place of each token; None where the tokens do not join to the text.

    A single space that a tokenizer put before the text is left out.
    """
    if text and tokens and tokens[0].startswith(" ") and not text.startswith(" "):
        tokens = [tokens[0][1:], *tokens[1:]]
    places: list[TokenPlace] = []
    cursor = index = at = 0  # in characters, tokens, bytes
    while index < len(tokens):
        if _is_part(tokens[index]):
            run = index
            while run < len(tokens) and _is_part(tokens[run]):
                run += 1
            stop = _end_of_run(text, cursor, tokens[run:])
            if stop is None:
                return None
            places += _divided(at, at + num_bytes(text[cursor:stop]), run - index)
            cursor, index, at = stop, run, places[-1].stop
            continue
        if not text.startswith(tokens[index], cursor):
            return None
        places.append(TokenPlace(at, at + num_bytes(tokens[index])))
        cursor += len(tokens[index])
        index, at = index + 1, places[-1].stop
    return places if cursor == len(text) else None


def num_bytes(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _divided(start: int, stop: int, num_tokens: int) -> list[TokenPlace]:
    """The places of `num_tokens` tokens that together cover the bytes from `start` to `stop`."""
    if num_tokens == stop - start:
        return [TokenPlace(byte, byte + 1) for byte in range(start, stop)]
    return [TokenPlace(start, stop), *[TokenPlace(stop, stop)] * (num_tokens - 1)]


def _is_part(token: str) -> bool:
    return token == "" or _PART in token or token.startswith("bytes:")  # the last: OpenAI's own notation


def _end_of_run(text: str, start: int, following: Sequence[str]) -> int | None:
    """Where the characters of a run of parts end: where the tokens after it go on, up to the next such run. None where
    they do so nowhere."""
    known = []
    for token in following:
        if _is_part(token):
            break
        known.append(token)
    if len(known) == len(following):  # nothing but whole tokens until the end of the text
        stop = len(text) - len("".join(known))
        return stop if stop > start and text.endswith("".join(known)) else None
    stop = text.find("".join(known), start + 1)
    return None if stop < 0 else stop
