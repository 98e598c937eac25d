"""The records of several files, as of one corpus: positions and lines are counted on from file to file.

Line N is the N-th of all, as of `cat` (or `zcat`) over the files in their order; of parquet files, the N-th row. A
message about a line names its file and the line there.

Knows: files in order. Does not know: formats.
"""

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from jobs.corpus.corpus import Corpus, Format
from jobs.corpus.file_reader import Contents, CorpusReader, hash_contents, reader_of
from jobs.corpus.folder.files import CorpusFile, digest_of_all
from jobs.corpus.opening import open_bytes
from jobs.corpus.parquet.reader import ParquetReader
from jobs.corpus.unpacking import OnBytes
from jobs.documents import Document, Record, Rejected
from jobs.errors import CorpusError


class FolderReader:
    """The records of all files. Each iteration reads from the start."""

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
            one = corpus_of(self._corpus, file)
            with open_bytes(one) as raw:
                self._before.append(self._lines_before)
                self._reader = reader = reader_of(one, raw, self._on_bytes, may_be_empty=True)
                for record in reader:
                    yield self._placed(record, position)
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
        """Digest of all files, after the last record; that of `hash_folder` unless one of them changed."""
        return digest_of_all(self._digests)

    def first_lines(self) -> list[bytes]:
        return self._first_lines or (self._reader.first_lines() if self._reader else [])

    def place_of(self, line: int) -> str:
        index = bisect_right(self._before, line - 1) - 1
        word = "row" if self._corpus.read_as is Format.PARQUET else "line"
        return f"{word} {line - self._before[index]} of {self._files[index].name}"

    def _placed(self, record: Record, position: int) -> Record:
        """A record of the file that is being read, with its place in the corpus."""
        line = record.line + self._lines_before
        if type(record) is Document:
            return Document(position, str(line) if record.unnamed else record[1], record[2], line, *record[4:])
        own_id = str(line) if record.unnamed else record[1]
        return Rejected(position, own_id, record[2], line, record[4], f"{record[5]} ({self.place_of(line)})", record[6])


def hash_folder(corpus: Corpus, files: Iterable[CorpusFile]) -> Contents:
    """A digest of all files in their order, and the number of their stored bytes."""
    digests, num_bytes = [], 0
    for file in files:
        one = corpus_of(corpus, file)
        with open_bytes(one) as raw:
            contents = hash_contents(one, raw)
        digests.append(contents.digest)
        num_bytes += contents.num_bytes
    return Contents(digest_of_all(digests), num_bytes)


def corpus_of(corpus: Corpus, file: CorpusFile) -> Corpus:
    """One of the files as a corpus, read as all are."""
    return replace(corpus, path=os.fspath(file.path), format=corpus.read_as)
