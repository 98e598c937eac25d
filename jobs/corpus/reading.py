"""Reading a corpus: its bytes are hashed, decompressed, and cut into records by the reader of its format.

Knows: which reader a format has. Does not know: tables.
"""

import hashlib
import io
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jobs.corpus.beir import BeirReader, hash_files
from jobs.corpus.corpus import Corpus, Format
from jobs.corpus.delimited import read_delimited
from jobs.corpus.jsonl import read_jsonl
from jobs.corpus.lines import BOM, read_text
from jobs.corpus.opening import CHUNK_BYTES, open_bytes
from jobs.corpus.payload import PayloadKind, take_candidates, take_pair, take_text
from jobs.corpus.read_errors import naming
from jobs.corpus.unpacking import HashedBytes, OnBytes, unpacked
from jobs.documents import Record
from jobs.errors import CorpusError

FIRST_LINES = 100  # that are kept for hints about what a corpus probably is


@dataclass(frozen=True, slots=True)
class Contents:
    """The stored bytes of a corpus."""

    digest: str  # sha256
    num_bytes: int


def read_corpus(corpus: Corpus) -> Iterator[Record]:
    """The records of the corpus, in order, as they are read. Raises CorpusError where the corpus as a whole cannot be
    read or is empty."""
    if corpus.beir_run:
        yield from BeirReader(corpus.beir_run, Path(tempfile.gettempdir()))
        return
    with open_bytes(corpus) as raw:
        yield from CorpusReader(corpus, raw)


@contextmanager
def open_corpus(
    corpus: Corpus, spool: Path, on_bytes: OnBytes | None = None
) -> "Iterator[tuple[Contents, CorpusReader | BeirReader]]":
    """Hash the corpus; then its contents, and a reader of its records. Temporary files are in the folder `spool`;
    `on_bytes` is called with each piece that the reader decompresses."""
    if corpus.beir_run:
        yield Contents(*hash_files(corpus.beir_run)), BeirReader(corpus.beir_run, spool)
        return
    with open_bytes(corpus, spool) as raw:
        yield hash_contents(corpus, raw), CorpusReader(corpus, raw, on_bytes)


def hash_contents(corpus: Corpus, raw: BinaryIO) -> Contents:
    """Hash the file, then seek to its start."""
    sha256, num_bytes = hashlib.sha256(), 0
    with naming(corpus.source):
        raw.seek(0)
        while chunk := raw.read(CHUNK_BYTES):
            sha256.update(chunk)
            num_bytes += len(chunk)
        raw.seek(0)
    return Contents(sha256.hexdigest(), num_bytes)


class CorpusReader:
    """The records of an open corpus, and the sha256 of the bytes they were made of. Each iteration reads from the
    start; a second one needs a file that can be read again (see `open_bytes`)."""

    def __init__(self, corpus: Corpus, raw: BinaryIO, on_bytes: OnBytes | None = None) -> None:
        self._corpus = corpus
        self._raw = raw
        self._on_bytes = on_bytes
        self._bytes: HashedBytes | None = None
        self._start = b""
        self.source = corpus.source
        self.lines_read = 0

    def __iter__(self) -> Iterator[Record]:
        if self._bytes is not None:
            self._raw.seek(0)
        self._bytes, self._start, self.lines_read = HashedBytes(self._raw), b"", 0
        with (
            naming(self.source),
            closing(unpacked(self._bytes, self._corpus.packing, self._look)) as stream,
        ):
            empty = True
            for record in _read(self._corpus, stream):
                empty = False
                yield record
            if empty:
                raise CorpusError("there is no document in it; is it the right file?")

    @property
    def bytes_read(self) -> int:
        return self._bytes.num_bytes if self._bytes else 0

    def digest(self) -> str:
        """sha256 of what was read so far: of the whole file after the last record."""
        return self._bytes.digest() if self._bytes else ""

    def first_lines(self) -> list[bytes]:
        """The first lines that are not blank, of what was read so far."""
        lines = self._start.removeprefix(BOM).splitlines(keepends=True)
        whole = lines if len(lines) == 1 or self._start.endswith(b"\n") else lines[:-1]
        return [line for line in whole if line.strip()][:FIRST_LINES]

    def _look(self, piece: bytes) -> None:
        self._start = self._start or piece
        self.lines_read += piece.count(b"\n")
        if self._on_bytes:
            self._on_bytes(piece)


def _read(corpus: Corpus, stream: io.BufferedReader) -> Iterator[Record]:
    fields, limit = corpus.payload_fields, corpus.line_limit
    match corpus.payload_kind:
        case PayloadKind.TEXT:
            take = take_text(corpus.text_field)
        case PayloadKind.PAIRS:
            take = take_pair(corpus.source_field, corpus.target_field)
        case PayloadKind.CANDIDATES:
            take = take_candidates
    match corpus.read_as:
        case Format.JSONL:
            return read_jsonl(stream, corpus.id_field, corpus.text_field, limit, take)
        case Format.TXT:
            return read_text(stream, limit)
        case Format.CSV | Format.TSV:
            assert corpus.separator
            return read_delimited(stream, corpus.separator, corpus.id_field, fields, limit, take)
