"""The byte streams below a reader: hashed as they are read, and decompressed."""

import bz2
import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol, cast

import zstandard

from jobs.corpus.encodings import Utf8Bytes
from jobs.corpus.signatures import HEAD_BYTES, encoding_in, foreign_file, packing_in
from jobs.errors import CorpusError

OnBytes = Callable[[bytes], None]

BUFFER_BYTES = 1 << 18
PIECE_BYTES = 1 << 12  # zstd compresses up to 32,768 to 1: what a piece decompresses to must fit in memory
XZ_MEMORY = 1 << 28  # `xz -9` needs 65 MiB; a file may ask for 4 GiB. (zstandard allows 128 MiB by itself.)


class DamagedError(Exception):
    """The compressed data cannot be decompressed; the text says why."""


# What the streams raise for damaged data. EOFError: the data ends too early.
DAMAGED = (EOFError, DamagedError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)


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


def unpacked(
    raw: io.RawIOBase, packing: str | None, on_bytes: OnBytes | None = None, *, encoding: str | None = None
) -> io.BufferedReader:
    """The decompressed bytes in UTF-8; without a `packing`, the compression is recognized by the first bytes.
    `encoding`: what they are written in. `on_bytes` is called with each piece. Raises CorpusError for UTF-16 and UTF-32
    without `encoding`, and for files that are no corpus."""
    stream: io.BufferedReader = io.BufferedReader(raw, BUFFER_BYTES)
    head = stream.peek(HEAD_BYTES)
    packing = (packing or packing_in(head)) if head else None
    if packing:
        stream = io.BufferedReader(_decompressed(stream, packing), BUFFER_BYTES)
        head = stream.peek(HEAD_BYTES)
    _refuse_others(head, encoding)
    if encoding is not None:
        stream = io.BufferedReader(Utf8Bytes(stream, encoding, BUFFER_BYTES), BUFFER_BYTES)
    if on_bytes is None:
        return stream
    return io.BufferedReader(_ObservedBytes(stream, on_bytes), BUFFER_BYTES)


def _refuse_others(head: bytes, encoding: str | None) -> None:
    if encoding is None and (other := encoding_in(head)):
        name = other.upper()
        way_out = f"save it as UTF-8 (iconv -f {name} -t UTF-8), or submit it with --encoding {other}"
        raise CorpusError(f"it is written in {name}; {way_out}")
    if other := foreign_file(head):
        raise CorpusError(f"it is {other}")


def _decompressed(packed: io.BufferedReader, packing: str) -> io.RawIOBase:
    match packing:
        case "gzip":
            return cast(io.RawIOBase, gzip.GzipFile(fileobj=packed))
        case "zstd":
            return _Frames(packed, _ZstdFrame)
        case "xz":
            return _Frames(packed, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY), padded=True)
        case "bzip2":
            return _Frames(packed, bz2.BZ2Decompressor)
        case _:
            raise AssertionError(f"no reader of {packing}")


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


class _Frame(Protocol):
    """A decompressor of one frame (of xz and bzip2: stream), as Python's own are."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _ZstdFrame:
    """zstandard's own reader takes a truncated file for a complete one (0.25), so frames are read one by one."""

    needs_input = True

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor().decompressobj()

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data

    def decompress(self, data: bytes, _max_length: int, /) -> bytes:
        """All that the data, a piece, decompresses to."""
        return self._frame.decompress(data)


class _Frames(io.RawIOBase):
    """The content of frames that follow one another; the end of each is checked."""

    def __init__(self, packed: io.BufferedReader, begin: Callable[[], _Frame], *, padded: bool = False) -> None:
        """`padded`: zero bytes may follow a frame."""
        self._packed = packed
        self._begin = begin
        self._padded = padded
        self._frame = begin()
        self._in_frame = self._had_frame = False
        self._rest = b""  # read, not yet decompressed
        self._ready = memoryview(b"")  # decompressed, not yet returned

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # io gives nothing else
        while not self._ready:
            piece = b""
            if not self._in_frame or self._frame.needs_input:
                piece = self._next_piece()
                if not piece:
                    if self._in_frame:
                        raise EOFError
                    return 0
            self._ready = memoryview(self._decompress(piece, len(buffer)))
        taken = min(len(buffer), len(self._ready))
        buffer[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        return taken

    def close(self) -> None:
        self._packed.close()
        super().close()

    def _next_piece(self) -> bytes:
        piece, self._rest = self._rest or self._packed.read(PIECE_BYTES), b""
        if self._padded and self._had_frame and not self._in_frame:
            while piece and not (piece := piece.lstrip(b"\0")):
                piece = self._packed.read(PIECE_BYTES)
        return piece

    def _decompress(self, piece: bytes, max_length: int) -> bytes:
        """At most `max_length` bytes, but of zstd."""
        try:
            content = self._frame.decompress(piece, max_length)
        except (lzma.LZMAError, OSError) as error:  # bz2 raises OSError
            if "Memory usage limit" in str(error):
                limit = f"unpacking it takes more than {XZ_MEMORY >> 20} MiB of memory"
                raise CorpusError(f"{limit}; compress it again, with xz -9 at most") from None
            raise DamagedError(str(error)) from None
        self._in_frame = not self._frame.eof
        if self._frame.eof:
            self._had_frame, self._rest, self._frame = True, self._frame.unused_data, self._begin()
        return content
