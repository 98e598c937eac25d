"""The spans of tokens in a text: from the character offsets of the `tokenizers` library to UTF-8 bytes.

The library gives each token that is part of a character the span of the whole character; a character that a normalizer
inserts, the span of the next one; characters that a normalizer merges (`e` + U+0301), only the span of the first.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray


def _byte_alphabet() -> dict[str, int]:
    """The byte of each character in byte-level pieces: printable Latin-1 stands for itself, U+0100 and on for the other
    bytes in order (`bytes_to_unicode` of GPT-2's encoder.py)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_ALPHABET = _byte_alphabet()


def to_bytes(
    text: str, offsets: Sequence[tuple[int, int]], num_bytes: Callable[[int], tuple[int, bool]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and stops in bytes, each (T,), of tokens whose `offsets` count characters; neither decreases, and no byte
    belongs to two tokens.

    `num_bytes`: for the index of a token, how many bytes it stands for, and whether it begins with a space. It is
    called only for tokens that share characters.
    """
    if not offsets:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    spans = np.array(offsets, np.int64)  # (T, 2)
    spans[:, 1] = np.maximum(spans[:, 1], spans[:, 0])
    _take_dropped(text, spans)
    at = _byte_places(text)
    starts, stops = at[spans[:, 0]], at[spans[:, 1]]
    # Runs of tokens that share characters: the library gives the span of the run; the sizes of the pieces divide it.
    highest = np.maximum.accumulate(spans[:, 1])
    shares = np.flatnonzero(spans[1:, 0] < highest[:-1])  # token i + 1 begins before the end of an earlier token
    index = 0
    while index < len(shares):
        first = int(shares[index])
        last = first + 1
        while index + 1 < len(shares) and shares[index + 1] == last:
            index, last = index + 1, last + 1
        index += 1
        begin, end = int(at[spans[first, 0]]), int(at[highest[last]])
        sizes = [num_bytes(token) for token in range(first, last + 1)]
        cuts = _share(end - begin, sizes, starts_with_space=text[spans[first, 0]].isspace())
        starts[first : last + 1] = begin + cuts[:-1]
        stops[first : last + 1] = begin + cuts[1:]
    return starts, stops


def _share(size: int, sizes: Sequence[tuple[int, bool]], *, starts_with_space: bool) -> NDArray[np.int64]:
    """The boundaries of T tokens that together cover `size` bytes: (T + 1,), from 0 to size."""
    wanted = np.array([num_bytes for num_bytes, _ in sizes], np.int64)
    if sizes[0][1] and not starts_with_space:
        wanted[0] -= 1  # a space that the tokenizer inserted before the text
    cuts = np.minimum(np.concatenate(([0], np.cumsum(wanted))), size)
    cuts[-1] = size
    return cuts


def _take_dropped(text: str, spans: NDArray[np.int64]) -> None:
    """Extend each token, in place, over the characters after it that belong to no token, except trailing white
    space."""
    for index in np.flatnonzero(spans[1:, 0] > spans[:-1, 1]):
        begin, end = spans[index, 1], spans[index + 1, 0]
        spans[index, 1] = begin + len(text[begin:end].rstrip())
    spans[-1, 1] += len(text[spans[-1, 1] :].rstrip())


def _byte_places(text: str) -> NDArray[np.int64]:
    """The byte offset of each character and of the end of the text: (characters + 1,)."""
    if text.isascii():
        return np.arange(len(text) + 1, dtype=np.int64)
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    widths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(widths)))
