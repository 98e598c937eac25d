"""Corpora in another encoding than UTF-8: named by `--encoding`, and read as UTF-8.

Knows: Python's codecs. Does not know: lines, formats.
"""

import codecs
import io
from encodings.aliases import aliases

from jobs.documents import quoted
from jobs.errors import SpecError
from jobs.near_names import nearest

# What stands for bytes that the encoding does not have. It is not UTF-8, so that the line with it is rejected.
UNDECODABLE = b"\xff\xfe\xff"
_SIGN = "\udcff"
# Codecs of Python that turn text into text, or bytes into what no file is written in.
_NO_ENCODINGS = frozenset({"idna", "punycode", "raw-unicode-escape", "raw_unicode_escape", "unicode-escape"})
_NO_ENCODINGS |= {"unicode_escape", "undefined", "mbcs", "oem", "utf-7"}


def encoding_named(name: str) -> str | None:
    """The encoding as Python names it; None for UTF-8, with a byte order mark or without. Raises SpecError for a name
    that is none."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):  # ValueError: a NUL in it
        found = None
    if found is None or not found._is_text_encoding or found.name in _NO_ENCODINGS:
        near = nearest(name.replace("-", "_"), sorted({*aliases, *aliases.values()}))
        meant = f"did you mean {near}?" if near else "some are cp1252, latin-1, shift_jis, gb18030, utf-16"
        raise SpecError(f"there is no encoding {quoted(name)}; {meant}")
    return None if found.name in ("utf-8", "utf-8-sig", "ascii") else found.name


class Utf8Bytes(io.RawIOBase):
    """The text of a stream in another encoding, in UTF-8. A byte order mark of UTF-16 or UTF-32 is not part of it."""

    def __init__(self, inner: io.BufferedReader, encoding: str, piece_bytes: int) -> None:
        self._inner = inner
        self._decoder = codecs.getincrementaldecoder(encoding)("kvjobs.undecodable")
        self._piece_bytes = piece_bytes
        self._ready = memoryview(b"")
        self._has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # io gives nothing else
        while not self._ready and not self._has_ended:
            piece = self._inner.read1(self._piece_bytes)
            self._has_ended = not piece
            text = self._decoder.decode(piece, final=self._has_ended)
            self._ready = memoryview(text.encode("utf-8", "kvjobs.undecodable"))
        taken = min(len(buffer), len(self._ready))
        buffer[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        return taken

    def close(self) -> None:
        self._inner.close()
        super().close()


def _mark(error: UnicodeError) -> tuple[str | bytes, int]:
    """The handler of both directions: a sign for bytes, which is then written as UNDECODABLE, as half of a surrogate
    pair is."""
    if isinstance(error, UnicodeDecodeError):
        return _SIGN, error.end
    assert isinstance(error, UnicodeEncodeError)
    return UNDECODABLE * (error.end - error.start), error.end


codecs.register_error("kvjobs.undecodable", _mark)
