"""The byte streams below a reader: hashed as they are read, gzip and zstd decompressed."""

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable
from typing import BinaryIO, cast

import zstandard

from jobs.errors import CorpusError

OnBytes = Callable[[bytes], None]

BUFFER_BYTES = 1 << 18
PIECE_BYTES = 1 << 12  # zstd compresses up to 32,768 to 1: what a piece decompresses to must fit in memory
# Neither can start a text in UTF-8: the second byte of each can only continue a character.
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# What the streams raise for damaged data. EOFError: the data ends too early.
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)


class HashedBytes(io.RawIOBase):
    """A stream that hashes what is read from a file. Closing it leaves the file open."""

    def __init__(self, raw: BinaryIO) -> None:
        self._read = read_once(raw)
        self._has_ended = False
        self._sha256 = hashlib.sha256()
        self.num_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # io gives nothing else
        if self._has_ended:  # at a terminal, another read would wait for another Ctrl-D
            return 0
        data = self._read(len(buffer))
        self._has_ended = not data
        buffer[: len(data)] = data
        self._sha256.update(data)
        self.num_bytes += len(data)
        return len(data)

    def digest(self) -> str:
        return self._sha256.hexdigest()


def read_once(raw: BinaryIO) -> Callable[[int], bytes]:
    """A function that reads up to so many bytes in one system call. `read` of a buffered stream reads again after the
    end, and a terminal then waits for more input."""
    read: Callable[[int], bytes] = getattr(raw, "read1", raw.read)
    return read


def unpacked(raw: io.RawIOBase, packing: str | None, on_bytes: OnBytes | None = None) -> io.BufferedReader:
    """The decompressed bytes; without a `packing`, gzip and zstd are recognized by their first bytes. `on_bytes` is
    called with each piece. Raises CorpusError for UTF-16."""
    stream: io.BufferedReader = io.BufferedReader(raw, BUFFER_BYTES)
    head = stream.peek(4)[:4]
    if head.startswith(UTF16_MARKS):
        raise CorpusError("it is written in UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    packing = packing or next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)
    is_plain = not head or packing is None
    if is_plain and on_bytes is None:
        return stream
    inner = stream if is_plain else gzip.GzipFile(fileobj=stream) if packing == "gzip" else _ZstdBytes(stream)
    return io.BufferedReader(_ObservedBytes(inner, on_bytes) if on_bytes else cast(io.RawIOBase, inner), BUFFER_BYTES)


class _ObservedBytes(io.RawIOBase):
    """A stream that passes each piece to a callback."""

    def __init__(self, inner: io.BufferedIOBase | io.RawIOBase, on_bytes: OnBytes) -> None:
        self._inner = inner
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # io gives nothing else
        num_bytes = self._inner.readinto(buffer) or 0
        if num_bytes:
            self._on_bytes(bytes(buffer[:num_bytes]))
        return num_bytes

    def close(self) -> None:
        self._inner.close()
        super().close()


class _ZstdBytes(io.RawIOBase):
    """zstandard's own reader takes a truncated file for a complete one (0.25), so the end of each frame is checked
    here."""

    def __init__(self, packed: io.BufferedReader) -> None:
        self._packed = packed
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._in_frame = False
        self._rest = b""  # read, not yet decompressed
        self._ready = memoryview(b"")  # decompressed, not yet returned

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # io gives nothing else
        while not self._ready:
            piece = self._rest or self._packed.read(PIECE_BYTES)
            if not piece:
                if self._in_frame:
                    raise EOFError
                return 0
            self._ready = memoryview(self._frame.decompress(piece))
            self._in_frame, self._rest = not self._frame.eof, b""
            if self._frame.eof:
                self._rest = self._frame.unused_data
                self._frame = zstandard.ZstdDecompressor().decompressobj()
        taken = min(len(buffer), len(self._ready))
        buffer[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        return taken
