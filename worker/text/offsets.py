"""Where tokens stand in a text: from the characters that the `tokenizers` library counts to UTF-8 bytes.

The library gives every part of a character the whole character; reports what a normalizer has put into the text as
standing on the character after it; and lets what a normalizer has merged (`e` + U+0301) stand on the first alone.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray


def _byte_alphabet() -> dict[str, int]:
    """The byte of every character of byte-level pieces: printable Latin-1 stands for itself, the other bytes, in their
    order, for U+0100 and on (`bytes_to_unicode` of GPT-2's encoder.py)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_ALPHABET = _byte_alphabet()


def to_bytes(
    text: str, offsets: Sequence[tuple[int, int]], num_bytes: Callable[[int], tuple[int, bool]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and stops in bytes, each (T,), of tokens given by characters; neither ever falls, and
    no byte has two tokens.

    `num_bytes` says of the token at a place how many bytes it stands for, and whether it begins with a space. It is
    asked only where tokens share characters.
    """
    if not offsets:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    spans = np.array(offsets, np.int64)  # (T, 2)
    spans[:, 1] = np.maximum(spans[:, 1], spans[:, 0])
    _take_dropped(text, spans)
    at = _byte_places(text)
    starts, stops = at[spans[:, 0]], at[spans[:, 1]]
    # Runs of tokens that share characters: what a run covers is known, how it is shared out is what the pieces say.
    highest = np.maximum.accumulate(spans[:, 1])
    shares = np.flatnonzero(spans[1:, 0] < highest[:-1])  # token i + 1 begins before what came up to i has ended
    place = 0
    while place < len(shares):
        first = int(shares[place])
        last = first + 1
        while place + 1 < len(shares) and shares[place + 1] == last:
            place, last = place + 1, last + 1
        place += 1
        begin, end = int(at[spans[first, 0]]), int(at[highest[last]])
        sizes = [num_bytes(token) for token in range(first, last + 1)]
        cuts = _share(end - begin, sizes, starts_with_space=text[spans[first, 0]].isspace())
        starts[first : last + 1] = begin + cuts[:-1]
        stops[first : last + 1] = begin + cuts[1:]
    return starts, stops


def _share(size: int, sizes: Sequence[tuple[int, bool]], *, starts_with_space: bool) -> NDArray[np.int64]:
    """Where a run of T tokens is cut that covers `size` bytes: (T + 1,), from 0 to size."""
    wanted = np.array([num_bytes for num_bytes, _ in sizes], np.int64)
    if sizes[0][1] and not starts_with_space:
        wanted[0] -= 1  # a space that the tokenizer has put before the text
    cuts = np.minimum(np.concatenate(([0], np.cumsum(wanted))), size)
    cuts[-1] = size
    return cuts


def _take_dropped(text: str, spans: NDArray[np.int64]) -> None:
    """Let a token reach over the characters after it that no token has, up to white space at their end. In place."""
    for place in np.flatnonzero(spans[1:, 0] > spans[:-1, 1]):
        begin, end = spans[place, 1], spans[place + 1, 0]
        spans[place, 1] = begin + len(text[begin:end].rstrip())
    spans[-1, 1] += len(text[spans[-1, 1] :].rstrip())


def _byte_places(text: str) -> NDArray[np.int64]:
    """Before how many bytes each character stands, and the text ends: (characters + 1,)."""
    if text.isascii():
        return np.arange(len(text) + 1, dtype=np.int64)
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    widths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(widths)))
