"""Reading one file, or standard input: its bytes are hashed, decompressed, and cut into records by the reader of its
format.

Knows: which reader a format has. Does not know: corpora of several files, tables.
"""

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from jobs.corpus.corpus import Corpus
from jobs.corpus.corpus_format import Format
from jobs.corpus.delimited import read_delimited
from jobs.corpus.jsonl import read_jsonl
from jobs.corpus.lines import BOM, read_text
from jobs.corpus.openai.requests import read_requests
from jobs.corpus.parquet.reader import ParquetReader
from jobs.corpus.unpacking import CHUNK_BYTES, HashedBytes, OnBytes, naming, read_once, unpacked
from jobs.documents import Record
from jobs.errors import CorpusError, KvjobsError
from jobs.system.private import make_folder

FIRST_LINES = 100  # that are kept for hints about what a corpus probably is


def reader_of(
    corpus: Corpus, raw: BinaryIO, on_bytes: OnBytes | None = None, *, may_be_empty: bool = False
) -> "CorpusReader | ParquetReader":
    """The reader of one open file."""
    kind = ParquetReader if corpus.read_as is Format.PARQUET else CorpusReader
    return kind(corpus, raw, on_bytes, may_be_empty=may_be_empty)


class CorpusReader:
    """The records of an open file of lines, and the sha256 of the bytes they were made of. Each iteration reads from
    the start; a second one needs a file that can be read again (see `open_bytes`)."""

    def __init__(
        self, corpus: Corpus, raw: BinaryIO, on_bytes: OnBytes | None = None, *, may_be_empty: bool = False
    ) -> None:
        """`may_be_empty`: as one of several files; else a file without a document is refused."""
        self._corpus = corpus
        self._may_be_empty = may_be_empty
        self._raw = raw
        self._on_bytes = on_bytes
        self._bytes: HashedBytes | None = None
        self._start = b""
        self._has_begun_line = False
        self.source = corpus.source
        self.lines_read = 0

    def __iter__(self) -> Iterator[Record]:
        if self._bytes is not None:
            self._raw.seek(0)
        self._bytes, self._start = HashedBytes(self._raw), b""
        self.lines_read, self._has_begun_line = 0, False
        with (
            naming(self.source),
            closing(
                unpacked(self._bytes, self._corpus.packing, self._look, encoding=self._corpus.decoded_as)
            ) as stream,
        ):
            empty = not self._may_be_empty
            for record in _read(self._corpus, stream):
                empty = False
                yield record
            if empty:
                raise CorpusError("there is no document in it; is it the right file?")

    @property
    def bytes_read(self) -> int:
        return self._bytes.num_bytes if self._bytes else 0

    @property
    def num_lines(self) -> int:
        """Lines read so far, the last one without a line end included."""
        return self.lines_read + self._has_begun_line

    def digest(self) -> str:
        """sha256 of what was read so far: of the whole file after the last record."""
        return self._bytes.digest() if self._bytes else ""

    def first_lines(self) -> list[bytes]:
        """The first lines that are not blank, of what was read so far."""
        lines = self._start.removeprefix(BOM).splitlines(keepends=True)
        whole = lines if len(lines) == 1 or self._start.endswith(b"\n") else lines[:-1]
        return [line for line in whole if line.strip()][:FIRST_LINES]

    def line_name(self, line: int) -> str:
        return f"line {line}"

    def _look(self, piece: bytes) -> None:
        self._start = self._start or piece
        self.lines_read += piece.count(b"\n")
        self._has_begun_line = not piece.endswith(b"\n")
        if self._on_bytes:
            self._on_bytes(piece)


def _read(corpus: Corpus, stream: io.BufferedReader) -> Iterator[Record]:
    fields, limit, take = corpus.payload_fields, corpus.line_limit, corpus.take_payload
    match corpus.read_as:
        case Format.OPENAI:
            assert corpus.requests
            return read_requests(stream, limit, corpus.requests)
        case Format.JSONL:
            return read_jsonl(stream, corpus.id_field, corpus.text_field, limit, take)
        case Format.TXT:
            return read_text(stream, limit)
        case Format.CSV | Format.TSV:
            assert corpus.separator
            return read_delimited(stream, corpus.separator, corpus.id_field, fields, limit, take, corpus.columns)
        case Format.PARQUET | Format.FILES:
            raise AssertionError("another reader reads it")


@contextmanager
def open_bytes(corpus: Corpus, spool: Path | None = None) -> Iterator[BinaryIO]:
    """The stored bytes of the corpus. With `spool` they can be read more than once: a pipe is first copied into an
    unlinked file in this folder, which disappears with the process however it ends."""
    with ExitStack() as stack:
        raw = _open(corpus)
        if not corpus.is_stdin:
            stack.enter_context(raw)
        if spool is not None and corpus.stream is None and not corpus.is_file:
            raw = stack.enter_context(_spooled(raw, corpus, spool))
        yield raw


def _open(corpus: Corpus) -> BinaryIO:
    if corpus.stream is not None:
        corpus.stream.seek(0)
        return corpus.stream
    if corpus.is_stdin:
        if sys.stdin is None:
            raise CorpusError("there is no standard input; name a file")
        return sys.stdin.buffer
    with naming(corpus.source):
        try:
            return open(corpus.path, "rb", buffering=0)
        except ValueError as error:
            raise CorpusError(f"this is not a path: {error}") from None


@contextmanager
def _spooled(raw: BinaryIO, corpus: Corpus, spool: Path) -> Iterator[BinaryIO]:
    try:
        make_folder(spool)
        copy = tempfile.TemporaryFile(dir=spool)  # noqa: SIM115  # closed below: this `try` is for the opening alone
    except OSError as error:
        raise KvjobsError(f"{corpus.source} cannot be copied to {spool}: {error.strerror}; set KVJOBS_HOME") from None
    read = read_once(raw)
    with copy:
        while True:
            with naming(corpus.source):
                chunk = read(CHUNK_BYTES)
            if not chunk:
                break
            try:
                copy.write(chunk)
                copy.flush()
            except OSError as error:
                raise KvjobsError(
                    f"{corpus.source} cannot be copied to {spool}: {error.strerror}; free some space there, or write "
                    "the corpus to a file and submit that"
                ) from None
        copy.seek(0)
        yield copy
