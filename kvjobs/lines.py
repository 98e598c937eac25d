"""The lines of a stream of bytes that comes in pieces."""

from collections.abc import Iterable, Iterator


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each line that is not empty, without its end."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, lines)
    if rest:
        yield rest
