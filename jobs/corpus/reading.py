"""Reading a corpus: a file, a folder of files, or a BEIR folder with a run, on this machine or elsewhere. What lies
elsewhere is copied to the disk first, and read from there.

Line N of several files is the N-th of all, as of `cat` (or `zcat`) over the files in their order; of parquet files, the
N-th row. A message about a line names its file and the line there.

Knows: which reader a corpus has. Does not know: formats, tables.
"""

import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from jobs.corpus.beir import BeirReader, digest_of_run
from jobs.corpus.corpus import Corpus
from jobs.corpus.corpus_format import Format
from jobs.corpus.file_reader import CorpusReader, open_bytes, reader_of
from jobs.corpus.folder import AnyFile, CorpusFile, digest_of_all, local_files
from jobs.corpus.parquet.reader import ParquetReader
from jobs.corpus.translatable.reader import UnitReader
from jobs.corpus.unpacking import Contents, OnBytes, hash_contents, naming
from jobs.documents import Document, Record, Rejected
from jobs.errors import CorpusError


class RecordReader(Protocol):
    """The records of a corpus; each iteration reads from the start. Raises CorpusError where it cannot be read."""

    @property
    def source(self) -> str:
        """The name of the corpus in messages."""
        ...

    @property
    def lines_read(self) -> int:
        """How many lines, or rows of a table, were read so far; blank lines count."""
        ...

    @property
    def bytes_read(self) -> int:
        """How many bytes were read from the disk so far: compressed ones, of a compressed file."""
        ...

    def __iter__(self) -> Iterator[Record]: ...

    def digest(self) -> str:
        """Digest of the bytes that the records were made of, after the last record."""
        ...

    def first_lines(self) -> list[bytes]:
        """The first lines that are not blank, of what was read so far; none where the corpus has no lines."""
        ...

    def line_name(self, line: int) -> str:
        """Where a record's line is, for messages: "line 7"."""
        ...


def read_corpus(corpus: Corpus) -> Iterator[Record]:
    """The records of the corpus, in order, as they are read. Raises CorpusError where the corpus as a whole cannot be
    read or is empty."""
    with ExitStack() as stack:
        spool = Path(tempfile.gettempdir())
        files = stack.enter_context(local_files(_files(corpus), spool))
        if corpus.beir_run:
            yield from BeirReader(corpus.source, files, spool)
        elif corpus.is_translatable:
            yield from UnitReader(corpus.source, files, corpus.units, corpus.line_limit)
        elif corpus.files is not None:
            yield from FolderReader(corpus, files)
        else:
            corpus = _corpus_of(corpus, files[0]) if files else corpus
            is_sought = corpus.read_as is Format.PARQUET
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) if is_sought else None
            yield from reader_of(corpus, stack.enter_context(open_bytes(corpus, folder)))


@contextmanager
def open_corpus(
    corpus: Corpus, spool: Path, on_bytes: OnBytes | None = None
) -> Iterator[tuple[Contents, RecordReader]]:
    """Hash the corpus; then its contents, and a reader of its records. Temporary files are in the folder `spool`, and
    copies of what lies elsewhere; `on_bytes` is called with each piece that the reader decompresses."""
    with local_files(_files(corpus), spool) as files:
        if corpus.beir_run:
            yield hash_files(files, digest_of_run), BeirReader(corpus.source, files, spool)
        elif corpus.is_translatable:
            units = UnitReader(corpus.source, files, corpus.units, corpus.line_limit)
            yield units.contents, units
        elif corpus.files is not None:
            yield hash_files(files, digest_of_all), FolderReader(corpus, files, on_bytes)
        else:
            corpus = _corpus_of(corpus, files[0]) if files else corpus
            with open_bytes(corpus, spool) as raw:
                yield hash_contents(raw, corpus.source), reader_of(corpus, raw, on_bytes)


def _files(corpus: Corpus) -> Sequence[AnyFile]:
    """The files of a corpus that has several, or whose one file lies elsewhere."""
    if corpus.beir_run:
        return corpus.beir_run.files
    return corpus.files or ([corpus.remote_file] if corpus.remote_file else [])


class FolderReader:
    """The records of several files, as of one corpus: positions and lines are counted on from file to file. Each
    iteration reads from the start."""

    def __init__(self, corpus: Corpus, files: Sequence[CorpusFile], on_bytes: OnBytes | None = None) -> None:
        self._corpus = corpus
        self._files = files
        self._on_bytes = on_bytes
        self._start()
        self.source = corpus.source

    def _start(self) -> None:
        self._reader: CorpusReader | ParquetReader | None = None
        self._before: list[int] = []  # of each file that was begun: how many lines those before it have
        self._bytes_before = self._lines_before = 0
        self._digests: list[str] = []
        self._first_lines: list[bytes] = []

    def __iter__(self) -> Iterator[Record]:
        self._start()
        position = 0
        for file in self._files:
            part = _corpus_of(self._corpus, file)
            with open_bytes(part) as raw:
                self._before.append(self._lines_before)
                self._reader = reader = reader_of(part, raw, self._on_bytes, may_be_empty=True)
                for record in reader:
                    yield self._in_corpus(record, position)
                    position += 1
                self._first_lines = self._first_lines or reader.first_lines()
                self._digests.append(reader.digest())
                self._bytes_before += reader.bytes_read
                self._lines_before += reader.num_lines
                self._reader = None
        if not position:
            raise CorpusError(f"{self.source}: there is no document in its files; is it the right folder?")

    @property
    def lines_read(self) -> int:
        return self._lines_before + (self._reader.lines_read if self._reader else 0)

    @property
    def bytes_read(self) -> int:
        return self._bytes_before + (self._reader.bytes_read if self._reader else 0)

    def digest(self) -> str:
        """The digest of all files, computed again after the last record: it differs from the first digest if a file has
        changed meanwhile."""
        return digest_of_all(self._digests)

    def first_lines(self) -> list[bytes]:
        return self._first_lines or (self._reader.first_lines() if self._reader else [])

    def line_name(self, line: int) -> str:
        index = bisect_right(self._before, line - 1) - 1
        word = "row" if self._corpus.read_as is Format.PARQUET else "line"
        return f"{word} {line - self._before[index]} of {self._files[index].name}"

    def _in_corpus(self, record: Record, position: int) -> Record:
        """A record of the file that is being read, with its position and its line in the whole corpus."""
        line = record.line + self._lines_before
        if type(record) is Document:
            return Document(position, str(line) if record.unnamed else record[1], record[2], line, *record[4:])
        own_id = str(line) if record.unnamed else record[1]
        return Rejected(
            position, own_id, record[2], line, record[4], f"{record[5]} ({self.line_name(line)})", record[6]
        )


def hash_files(files: Iterable[CorpusFile], digest_of: Callable[[Iterable[str]], str]) -> Contents:
    """The digest that `digest_of` makes of the digests of several files, in their order; and their size in bytes."""
    contents = []
    for file in files:
        with naming(str(file)), open(file.path, "rb", buffering=0) as raw:
            contents.append(hash_contents(raw, str(file)))
    return Contents(digest_of(part.digest for part in contents), sum(part.num_bytes for part in contents))


def _corpus_of(corpus: Corpus, file: CorpusFile) -> Corpus:
    """One of the files as a corpus, read as all are."""
    return replace(corpus, path=os.fspath(file.path), format=corpus.read_as, shown=file.shown or None)
