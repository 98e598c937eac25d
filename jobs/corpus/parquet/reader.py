"""A parquet corpus: its rows are read in a process of their own (`jobs.corpus.parquet.rows`), and come as JSON Lines.

Knows: that process. Does not know: parquet.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import BinaryIO

import orjson

from jobs.corpus.corpus import Corpus
from jobs.corpus.jsonl import read_jsonl
from jobs.corpus.parquet.rows import REFUSED, RowsRequest
from jobs.corpus.unpacking import BUFFER_BYTES, OnBytes, naming
from jobs.documents import Record, Reject, Rejected
from jobs.errors import CorpusError
from jobs.system.process import how_it_ended
from jobs.tasks.kind import PayloadKind

MEMORY_BYTES = 2 << 30  # of the process
ROWS = "jobs.corpus.parquet.rows"  # `python -m` runs it


class ParquetReader:
    """The records of an open parquet file, and the sha256 of the file. Each iteration reads from the start."""

    def __init__(
        self, corpus: Corpus, raw: BinaryIO, on_bytes: OnBytes | None = None, *, may_be_empty: bool = False
    ) -> None:
        """`raw` can be sought in. `may_be_empty`: as one of several files; else a file without a row is refused."""
        self._corpus = corpus
        self._may_be_empty = may_be_empty
        self._raw = raw
        self._on_bytes = on_bytes
        self._num_bytes = self._num_rows = self._num_lines = 0
        self.source = corpus.source

    def __iter__(self) -> Iterator[Record]:
        corpus, self._num_lines = self._corpus, 0
        are_texts = corpus.payload_kind in (PayloadKind.TEXT, PayloadKind.PAIRS)
        request = RowsRequest(corpus.id_field, corpus.payload_fields, are_texts, MEMORY_BYTES)
        with naming(self.source):
            self._num_bytes = self._raw.seek(0, os.SEEK_END)
            self._raw.seek(0)
            with open_rows(self._raw, request) as lines, closing(buffered(lines)) as stream:
                lines.on_bytes = self._look
                self._num_rows = orjson.loads(stream.readline())["rows"]
                if not self._num_rows and not self._may_be_empty:
                    raise CorpusError("there is no row in it; is it the right file?")
                take = corpus.take_payload
                records = read_jsonl(stream, corpus.id_field, corpus.text_field, corpus.line_limit, take)
                yield from map(_without_option, records)

    @property
    def lines_read(self) -> int:
        """How many rows were read."""
        return max(0, self._num_lines - 1)

    @property
    def num_lines(self) -> int:
        return self.lines_read

    @property
    def bytes_read(self) -> int:
        """An estimate: as many bytes of the file as rows of its rows."""
        return self._num_bytes * min(self.lines_read, self._num_rows) // self._num_rows if self._num_rows else 0

    def digest(self) -> str:
        """sha256 of the file as it is now."""
        with naming(self.source):
            self._raw.seek(0)
            return hashlib.file_digest(self._raw, "sha256").hexdigest()  # type: ignore[arg-type]  # any stream will do

    def first_lines(self) -> list[bytes]:
        """None: there are no lines."""
        return []

    def line_name(self, line: int) -> str:
        return f"row {line}"

    def _look(self, piece: bytes) -> None:
        self._num_lines += piece.count(b"\n")
        if self._on_bytes:
            self._on_bytes(piece)


def _without_option(record: Record) -> Record:
    """A text that is not UTF-8 with a cure that parquet has: --encoding is none."""
    if type(record) is Rejected and record.code is Reject.BAD_UTF8:
        return record._replace(reason=f"{record.reason.partition(';')[0]}; write the column as UTF-8")
    return record


def buffered(lines: io.RawIOBase) -> io.BufferedReader:
    return io.BufferedReader(lines, BUFFER_BYTES)


class RowBytes(io.RawIOBase):
    """The standard output of the process, with its end checked: what it had written before it failed is no corpus."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: BinaryIO) -> None:
        self._process = process
        self._errors = errors
        assert process.stdout
        self._stdout = process.stdout
        self.on_bytes: OnBytes | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # io gives nothing else
        num_bytes = self._stdout.readinto(buffer)  # type: ignore[attr-defined]  # unbuffered, so it is a FileIO
        if not num_bytes and (code := self._process.wait()):
            raise CorpusError(self._problem(code))
        if num_bytes and self.on_bytes:
            self.on_bytes(bytes(buffer[:num_bytes]))
        return int(num_bytes)

    def _problem(self, code: int) -> str:
        self._errors.seek(0)
        text = self._errors.read()
        if code == REFUSED:
            return str(json.loads(text))
        last = text.decode("utf-8", "replace").strip().rpartition("\n")[2]
        what = f"the process that reads it {how_it_ended(code)}{f' ({last})' if last else ''}"
        if code > 0:
            return f"{what}, which is an error of kvjobs; write the file as jsonl, and report it"
        return (
            f"{what}; the file is damaged, or a part of it unpacks to more memory than there is: write it again, with "
            "smaller row groups and pages"
        )


@contextmanager
def open_rows(raw: BinaryIO, request: RowsRequest) -> Iterator[RowBytes]:
    """Start the process; yields the lines that it writes. It is killed where they are not read to the end."""
    with (
        os.fdopen(os.memfd_create("errors"), "w+b") as errors,
        # -P: a folder named `jobs` in the current directory must not be imported instead of the package.
        subprocess.Popen(
            [sys.executable, "-P", "-m", ROWS, str(request)],
            stdin=raw,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
        ) as process,
    ):
        try:
            yield RowBytes(process, errors)
        finally:
            process.kill()
