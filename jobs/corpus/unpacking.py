"""The byte streams below a reader: hashed as they are read, and decompressed; and their errors, which name the file.

Knows: bytes, and what the first of them say: a compression, UTF-16 or UTF-32, another program's file. Does not know:
formats.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import zstandard

from jobs.corpus.encodings import Utf8Bytes
from jobs.corpus.lines import numbered_lines
from jobs.corpus.pieces import PieceBytes
from jobs.errors import CorpusError

OnBytes = Callable[[bytes], None]

BUFFER_BYTES = 1 << 18
CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 26  # a line of a `LineFile` is kept in memory
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


@dataclass(frozen=True, slots=True)
class Contents:
    """The stored bytes of a corpus."""

    digest: str  # sha256
    num_bytes: int


def hash_contents(raw: BinaryIO, source: str) -> Contents:
    """Hash the file, then seek to its start. `source` names it in errors."""
    sha256, num_bytes = hashlib.sha256(), 0
    with naming(source):
        raw.seek(0)
        while chunk := raw.read(CHUNK_BYTES):
            sha256.update(chunk)
            num_bytes += len(chunk)
        raw.seek(0)
    return Contents(sha256.hexdigest(), num_bytes)


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
        stream = io.BufferedReader(Utf8Bytes(stream, encoding), BUFFER_BYTES)
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


class _ObservedBytes(PieceBytes):
    """A stream that passes each piece to a callback."""

    def __init__(self, inner: io.BufferedReader, on_bytes: OnBytes) -> None:
        super().__init__(inner)
        self._on_bytes = on_bytes

    def next_piece(self, wanted: int) -> bytes:
        piece = self.inner.read(wanted)
        if piece:
            self._on_bytes(piece)
        return piece


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
        """Everything that this piece of compressed data decompresses to."""
        return self._frame.decompress(data)


class _Frames(PieceBytes):
    """The content of frames that follow one another; the end of each is checked."""

    def __init__(self, packed: io.BufferedReader, begin: Callable[[], _Frame], *, padded: bool = False) -> None:
        """`padded`: zero bytes may follow a frame."""
        super().__init__(packed)
        self._begin = begin
        self._padded = padded
        self._frame = begin()
        self._in_frame = self._had_frame = False
        self._rest = b""  # read, not yet decompressed

    def next_piece(self, wanted: int) -> bytes:
        content = b""
        while not content:
            piece = b""
            if not self._in_frame or self._frame.needs_input:
                piece = self._read_packed()
                if not piece:
                    if self._in_frame:
                        raise EOFError
                    return b""
            content = self._decompress(piece, wanted)
        return content

    def _read_packed(self) -> bytes:
        piece, self._rest = self._rest or self.inner.read(PIECE_BYTES), b""
        if self._padded and self._had_frame and not self._in_frame:
            while piece and not (piece := piece.lstrip(b"\0")):
                piece = self.inner.read(PIECE_BYTES)
        return piece

    def _decompress(self, piece: bytes, max_length: int) -> bytes:
        """Decompress to at most `max_length` bytes; zstd has no such limit and returns all."""
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


HEAD_BYTES = 265  # as far as the name of tar's format

# None of these can start a text in UTF-8: what follows their letters are control characters, or the digits of pi.
_PACKINGS = {
    rb"\x1f\x8b": "gzip",
    rb"\x28\xb5\x2f\xfd": "zstd",
    rb"\xfd7zXZ\x00": "xz",
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": "bzip2",
}
_UTF_32 = {b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# Where the zero bytes of two ASCII characters are. (Half of a text that begins otherwise is in the same place, but this
# is a hint, not a detector.)
_WITHOUT_MARK = {
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
}
_FOREIGN = {
    rb"PK\x03\x04": "a zip archive, as .xlsx and .ods are; unpack it, or save its table as csv",
    rb"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it",
    rb"\x04\x22\x4d\x18": "compressed with lz4; unpack it, or compress it as .zst",
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Excel or Word file; save it as csv, or as text",
    rb"PAR1[\x00-\x1f]": "a parquet file: --format parquet",
    rb"ARROW1\x00\x00": "an Arrow (Feather) file; write it as parquet",
    rb"SQLite format 3\x00": "a SQLite database; write its table as csv or jsonl",
    rb"[\s\S]{257}ustar[\x00 ]": "a tar archive; unpack it, and submit its folder",
}


def packing_in(head: bytes) -> str | None:
    """The compression that the first bytes of a file show."""
    return _found(_PACKINGS, head)


def encoding_in(head: bytes) -> str | None:
    """The name of UTF-16 or UTF-32, where the first bytes of a text show one of them, as Python knows it."""
    start = head[:4]
    if start in _UTF_32:
        return "utf-32"
    if start.startswith(_UTF_16):
        return "utf-16"
    return _WITHOUT_MARK.get(tuple(byte == 0 for byte in start))  # type: ignore[arg-type]  # shorter ones are not there


def foreign_file(head: bytes) -> str | None:
    """What a file is that is no corpus, and what to do with it."""
    return _found(_FOREIGN, head)


def _found(signatures: dict[bytes, str], head: bytes) -> str | None:
    return next((name for signature, name in signatures.items() if re.match(signature, head)), None)


NO_FILE = "there is no such file; check the path"


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Raise errors of the file as a CorpusError that begins with `source`."""
    try:
        yield
    except CorpusError as error:
        raise error if str(error).startswith(source) else CorpusError(f"{source}: {error}") from error
    except FileNotFoundError:
        raise CorpusError(f"{source}: {NO_FILE}") from None
    except DAMAGED as error:
        end, bad = "the compressed data ends too early", f"it cannot be decompressed ({error})"
        raise CorpusError(
            f"{source}: {end if isinstance(error, EOFError) else bad}; fetch or write the file again"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise CorpusError(f"{source} cannot be read: {reason}; check it and its permissions") from None


class LineFile:
    """A file that is read once, from start to end. Raises CorpusError where it cannot be read."""

    def __init__(self, path: Path, shown: str = "") -> None:
        """`shown`: its name in messages, where that is not the path."""
        self.path = path
        self.shown = shown or str(path)
        self.bytes_read = 0  # stored bytes
        self.digest: str | None = None  # sha256 of the stored bytes, after the last line

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Each line that is not blank, with its number, from 1."""
        with naming(self.shown), open(self.path, "rb", buffering=0) as raw:
            hashed = HashedBytes(raw)
            with closing(unpacked(hashed, None)) as stream:
                for number, line in numbered_lines(stream, MAX_LINE_BYTES):
                    self.bytes_read = hashed.num_bytes
                    if line is None:
                        raise self.error(number, f"the line is longer than {MAX_LINE_BYTES:,} bytes; shorten it")
                    if line and not line.isspace():
                        yield number, line
            self.bytes_read, self.digest = hashed.num_bytes, hashed.digest()

    def error(self, number: int, what: str) -> CorpusError:
        """The error of a line; `what` says what is wrong and what to do."""
        return CorpusError(f"{self.shown}, line {number}: {what}")
