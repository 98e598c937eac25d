"""Open a corpus and read it: where the bytes come from, how they are packed, which format they are in.

Knows: files, standard input, gzip, zstd, and which reader a format has. Does not know: tables.
"""

import enum
import hashlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jobs.corpus.delimited import read_delimited
from jobs.corpus.jsonl import read_jsonl
from jobs.corpus.lines import BOM, read_text
from jobs.corpus.payload import Holds, take_candidates, take_pair, take_text
from jobs.corpus.retrieval import Retrieval, RetrievalReading
from jobs.corpus.retrieval import survey as survey_retrieval
from jobs.corpus.unpacking import DAMAGED, HashedBytes, Watch, read_once, unpacked
from jobs.documents import Record, shown
from jobs.errors import CorpusError, KvjobsError, SpecError
from jobs.private import make_folder

CHUNK_BYTES = 1 << 20
FIRST_LINES = 100  # that are kept to say what a corpus probably is
# A query with a thousand candidates of a paragraph is one line.
MAX_LINE_BYTES = {Holds.TEXT: 1 << 20, Holds.PAIRS: 1 << 20, Holds.CANDIDATES: 1 << 24}


class Format(enum.StrEnum):
    """What a corpus is written in."""

    JSONL = "jsonl"  # an object a line
    TXT = "txt"  # a document a line
    CSV = "csv"  # with a header
    TSV = "tsv"  # with a header


FORMATS = ", ".join(Format)
BEIR = "beir"  # a folder, with a run
SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".txt": Format.TXT,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
}
SEPARATORS = {Format.CSV: ",", Format.TSV: "\t"}
DELIMITER_NAMES = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " ", r"\t": "\t"}
NO_FILE = "there is no such file; check the path"
PACKINGS = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A corpus and how to read it; raise SpecError where that makes no sense. Nothing is opened yet."""

    path: str | os.PathLike[str]  # "-" is standard input
    format: str | None = None  # None: what the name ends with, and jsonl from standard input
    delimiter: str | None = None  # of csv and tsv: one character, or a name; None: what the format says
    holds: Holds = Holds.TEXT
    id_field: str = "id"
    text_field: str = "text"
    source_field: str = "source"  # of pairs
    target_field: str = "target"
    run: str | os.PathLike[str] | None = None  # of queries with candidates: then `path` is a folder as BEIR has them
    max_line_bytes: int | None = None  # a longer line is rejected; None: `MAX_LINE_BYTES`

    def __post_init__(self) -> None:
        if self.run is not None:
            if self.holds is not Holds.CANDIDATES or self.format is not None:
                raise SpecError("a run is of a BEIR folder, whose queries are reranked; leave the format out")
            _ = self.retrieval
            return
        names = [self.id_field, *self.payload_fields.values()]
        if twice := [name for index, name in enumerate(names) if name in names[:index]]:
            what = " and the ".join(["id", *self.payload_fields])
            raise SpecError(f"the {what} cannot both be in the field {twice[0]!r}; change one of the two")
        if self.line_limit < 1:
            raise SpecError(f"max_line_bytes is {self.line_limit}; the smallest is 1")
        read_as = self.read_as
        _ = self.separator
        if self.holds is Holds.PAIRS and read_as is Format.TXT:
            raise SpecError(f"a pair is more than a line of text, and {self.source} is read as txt; write jsonl or csv")
        if self.holds is Holds.CANDIDATES and read_as is not Format.JSONL:
            raise SpecError(
                f"queries with their candidates are written in jsonl, and {self.source} is read as {read_as}; "
                'write {"id": ..., "query": ..., "candidates": [{"id": ..., "text": ...}, ...]} a line'
            )

    @property
    def payload_fields(self) -> dict[str, str]:
        """The fields of a line that are worked on, by what they are."""
        match self.holds:
            case Holds.TEXT:
                return {"text": self.text_field}
            case Holds.PAIRS:
                return {"source": self.source_field, "target": self.target_field}
            case Holds.CANDIDATES:
                return {"query": "query", "candidates": "candidates"}

    @property
    def line_limit(self) -> int:
        """Bytes of the longest line."""
        return MAX_LINE_BYTES[self.holds] if self.max_line_bytes is None else self.max_line_bytes

    @property
    def reading(self) -> str:
        """JSON: how it is read, for the job's row: what it takes to write its lines anew."""
        if self.run is not None:
            return json.dumps({"format": BEIR, "holds": self.holds})
        how: dict[str, object] = {"format": self.read_as, "holds": self.holds, "id_field": self.id_field}
        how |= {"packing": self.packing} if self.packing else {}
        how |= {"delimiter": self.separator} if self.has_own_separator else {}
        return json.dumps(how | {"fields": self.payload_fields})

    @property
    def is_stdin(self) -> bool:
        return os.fspath(self.path) == "-"

    @property
    def retrieval(self) -> Retrieval | None:
        """A BEIR folder and the run over it, if that is what it is."""
        return None if self.run is None else Retrieval(Path(self.path), Path(self.run))

    @property
    def is_file(self) -> bool:
        """Whether it is there to be read again, and not a pipe."""
        return self.run is not None or (not self.is_stdin and os.path.isfile(self.path))

    @property
    def read_as(self) -> Format:
        """The format that was given, else the one that the name ends with."""
        if self.format is not None:
            if self.format == "parquet":
                raise SpecError("parquet cannot be read yet; write the table as jsonl and submit that")
            if self.format not in tuple(Format):
                raise SpecError(f"there is no format {self.format!r}; known are {FORMATS}")
            return Format(self.format)
        if self.is_stdin:
            return Format.JSONL
        suffixes = [suffix.lower() for suffix in Path(self.path).suffixes]
        if suffixes and suffixes[-1] in PACKINGS:
            suffixes.pop()
        suffix = suffixes[-1] if suffixes else ""
        if suffix == ".parquet":
            raise SpecError("parquet cannot be read yet; write the table as jsonl and submit that")
        if suffix not in SUFFIXES:
            with _explained(self):  # what is no file at all has no need of a format
                if os.path.isdir(self.path):
                    raise CorpusError(_a_folder(self.path))
                if not os.path.exists(self.path):
                    raise CorpusError(NO_FILE)
            raise SpecError(f"the name of {self.source} does not tell its format; say --format {FORMATS}")
        return SUFFIXES[suffix]

    @property
    def separator(self) -> str | None:
        """What stands between two cells, where the format has cells."""
        read_as = self.read_as
        if self.delimiter is None:
            return SEPARATORS.get(read_as)
        if read_as not in SEPARATORS:
            raise SpecError(f"--delimiter is for csv and tsv, and {self.source} is read as {read_as}; leave it out")
        return separator_of(self.delimiter)

    @property
    def has_own_separator(self) -> bool:
        """Whether it is not the one of the format."""
        return self.separator != SEPARATORS.get(self.read_as)

    @property
    def packing(self) -> str | None:
        """How the name says that the bytes are packed; a packed stream without a name is known by its start."""
        return PACKINGS.get(Path(self.path).suffix.lower())

    @property
    def source(self) -> str:
        """Where the corpus is, for messages and for the job's row."""
        if self.retrieval:
            return self.retrieval.source
        if self.is_stdin:
            return "standard input"
        path = os.fsencode(os.path.abspath(self.path)).decode("utf-8", "backslashreplace")
        return path if path.isprintable() else path.encode("unicode_escape").decode()


def separator_of(delimiter: str) -> str:
    """The sign that an option means; raise SpecError where it is none."""
    separator = DELIMITER_NAMES.get(delimiter.lower(), delimiter)
    if len(separator) != 1 or separator in '"\r\n\0' or separator.isalnum():
        names = ", ".join(name for name in DELIMITER_NAMES if name.isalpha())
        raise SpecError(f"the delimiter {shown(delimiter)} is none; give one sign, such as ';', or {names}")
    return separator


@dataclass(frozen=True, slots=True)
class Contents:
    """The bytes of a corpus as they are stored."""

    digest: str  # sha256
    num_bytes: int


def read_corpus(corpus: Corpus) -> Iterator[Record]:
    """Each document of the corpus and each line that is none, in order, as they are read; raise CorpusError where the
    corpus as a whole cannot be read or holds nothing."""
    if corpus.retrieval:
        yield from RetrievalReading(corpus.retrieval, Path(tempfile.gettempdir()))
        return
    with opened(corpus) as raw:
        yield from Reading(corpus, raw)


@contextmanager
def surveyed(
    corpus: Corpus, spool: Path, watch: Watch | None = None
) -> "Iterator[tuple[Contents, Reading | RetrievalReading]]":
    """What the bytes of the corpus are, and a way to read them. What is needed meanwhile is kept in `spool`; `watch`
    sees each piece that is read."""
    if corpus.retrieval:
        yield Contents(*survey_retrieval(corpus.retrieval)), RetrievalReading(corpus.retrieval, spool)
        return
    with opened(corpus, spool) as raw:
        yield survey(corpus, raw), Reading(corpus, raw, watch)


@contextmanager
def opened(corpus: Corpus, spool: Path | None = None) -> Iterator[BinaryIO]:
    """The bytes of the corpus as they are stored. With a `spool` they can be read more than once: what comes through
    a pipe is copied there first, into a file without a name, which is gone when we are, however we go."""
    with ExitStack() as stack:
        raw = _open(corpus)
        if not corpus.is_stdin:
            stack.enter_context(raw)
        if spool is not None and not corpus.is_file:
            raw = stack.enter_context(_copied(raw, corpus, spool))
        yield raw


def survey(corpus: Corpus, raw: BinaryIO) -> Contents:
    """What is in the file, which then stands at its start again."""
    sha256, num_bytes = hashlib.sha256(), 0
    with _explained(corpus):
        raw.seek(0)
        while chunk := raw.read(CHUNK_BYTES):
            sha256.update(chunk)
            num_bytes += len(chunk)
        raw.seek(0)
    return Contents(sha256.hexdigest(), num_bytes)


class Reading:
    """A pass over an open corpus: its records, and the sha256 of the bytes they were made of. Each iteration is a pass
    of its own, from the start; the second one needs a file that can be read again (see `opened`)."""

    def __init__(self, corpus: Corpus, raw: BinaryIO, watch: Watch | None = None) -> None:
        self._corpus = corpus
        self._raw = raw
        self._watch = watch
        self._bytes: HashedBytes | None = None
        self._start = b""
        self.source = corpus.source
        self.lines_read = 0

    def __iter__(self) -> Iterator[Record]:
        if self._bytes is not None:
            self._raw.seek(0)
        self._bytes, self._start, self.lines_read = HashedBytes(self._raw), b"", 0
        with (
            _explained(self._corpus),
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
        """Of what was read so far: of the whole file once every record was taken."""
        return self._bytes.digest() if self._bytes else ""

    def first_lines(self) -> list[bytes]:
        """Some lines that are not blank, of what was read so far."""
        lines = self._start.removeprefix(BOM).splitlines(keepends=True)
        whole = lines if len(lines) == 1 or self._start.endswith(b"\n") else lines[:-1]
        return [line for line in whole if line.strip()][:FIRST_LINES]

    def _look(self, piece: bytes) -> None:
        self._start = self._start or piece
        self.lines_read += piece.count(b"\n")
        if self._watch:
            self._watch(piece)


def _a_folder(path: str | os.PathLike[str]) -> str:
    """What to do about a folder; one as BEIR has them wants a run."""
    if os.path.exists(os.path.join(path, "queries.jsonl")):
        return "that is a folder as BEIR has them; to rerank it, name the first stage's run: --task rerank --run FILE"
    return "that is a folder; name a file in it"


def _open(corpus: Corpus) -> BinaryIO:
    if corpus.is_stdin:
        if sys.stdin is None:
            raise CorpusError("there is no standard input; name a file")
        return sys.stdin.buffer
    with _explained(corpus):
        try:
            return open(corpus.path, "rb", buffering=0)
        except FileNotFoundError:
            raise CorpusError(NO_FILE) from None
        except IsADirectoryError:
            raise CorpusError(_a_folder(corpus.path)) from None
        except ValueError as error:
            raise CorpusError(f"that is not a path: {error}") from None


@contextmanager
def _copied(raw: BinaryIO, corpus: Corpus, spool: Path) -> Iterator[BinaryIO]:
    try:
        make_folder(spool)
        copy = tempfile.TemporaryFile(dir=spool)  # noqa: SIM115  # closed below: only the opening is tried here
    except OSError as error:
        raise KvjobsError(f"{corpus.source} cannot be kept in {spool}: {error.strerror}; set KVJOBS_HOME") from None
    read = read_once(raw)
    with copy:
        while True:
            with _explained(corpus):
                chunk = read(CHUNK_BYTES)
            if not chunk:
                break
            try:
                copy.write(chunk)
                copy.flush()
            except OSError as error:
                raise KvjobsError(
                    f"{corpus.source} cannot be kept in {spool}: {error.strerror}; free some space there, or write "
                    "the corpus to a file and submit that"
                ) from None
        copy.seek(0)
        yield copy


def _read(corpus: Corpus, stream: io.BufferedReader) -> Iterator[Record]:
    fields, limit = corpus.payload_fields, corpus.line_limit
    match corpus.holds:
        case Holds.TEXT:
            take = take_text(corpus.text_field)
        case Holds.PAIRS:
            take = take_pair(corpus.source_field, corpus.target_field)
        case Holds.CANDIDATES:
            take = take_candidates
    match corpus.read_as:
        case Format.JSONL:
            return read_jsonl(stream, corpus.id_field, corpus.text_field, limit, take)
        case Format.TXT:
            return read_text(stream, limit)
        case Format.CSV | Format.TSV:
            assert corpus.separator
            return read_delimited(stream, corpus.separator, corpus.id_field, fields, limit, take)


@contextmanager
def _explained(corpus: Corpus) -> Iterator[None]:
    """Whatever goes wrong with the file, in one sentence that names it."""
    try:
        yield
    except CorpusError as error:
        raise CorpusError(f"{corpus.source}: {error}") from error
    except DAMAGED as error:
        what = "the packed data breaks off" if isinstance(error, EOFError) else f"it cannot be unpacked ({error})"
        raise CorpusError(f"{corpus.source}: {what}; fetch or make the file again") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise CorpusError(f"{corpus.source} cannot be read: {reason}; check it and its permissions") from None
