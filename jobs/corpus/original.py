"""The original lines of a corpus, for chosen documents (`kvjobs export --format original`).

If the corpus is still there, byte for byte, its lines are copied, in UTF-8 whatever it is written in. If not (it came
through a pipe, it was changed, it is on another machine), they are written from what the job stores: the same values,
with the id and the text first, spaced as orjson or the csv module does.

Knows: how a corpus was read, from `Corpus.reading`. Does not know: results, tables.
"""

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson

from jobs.addresses.address import Address, is_address, is_hidden
from jobs.addresses.listing import RemoteFile, find_remote
from jobs.compression import packing_of
from jobs.corpus.corpus import BEIR, MAX_LINE_BYTES
from jobs.corpus.corpus_format import SEPARATORS, Format
from jobs.corpus.field_path import put_back
from jobs.corpus.folder import AnyFile, CorpusFile, choose_remote_files, digest_of_all, find_files, local_files
from jobs.corpus.lines import BOM, numbered_lines
from jobs.corpus.openai.request_kind import RequestKind, kind_in
from jobs.corpus.openai.requests import put_request_back
from jobs.corpus.unpacking import HashedBytes, unpacked
from jobs.errors import KvjobsError, SpecError
from jobs.tasks.kind import PayloadKind
from jobs.text.json_numbers import read_fields

END = 1 << 62  # no line has this number


class StoredLine(Protocol):
    """The columns of a document from which its line in the corpus is written again."""

    @property
    def line(self) -> int: ...
    @property
    def next_line(self) -> int | None: ...  # where the next document begins
    @property
    def external_id(self) -> str | None: ...
    @property
    def numeric_id(self) -> bool: ...
    @property
    def unnamed(self) -> bool: ...
    @property
    def text(self) -> str | None: ...
    @property
    def fields(self) -> str | None: ...


class Lines(Protocol):
    """The head of the file and the lines of documents, which are requested in the order of the corpus."""

    def head(self) -> bytes: ...
    def line(self, document: StoredLine) -> bytes: ...


@dataclass(frozen=True, slots=True)
class CorpusLayout:
    """How a corpus was read."""

    format: Format
    payload_kind: PayloadKind
    id_field: str
    fields: Mapping[str, str]  # of the payload, by role
    packing: str | None
    delimiter: str | None  # of a table
    max_line_bytes: int
    columns: Sequence[str] | None = None  # of a table without a header
    encoding: str | None = None  # None: UTF-8
    is_folder: bool = False  # a folder of files, or a pattern
    any_name: bool = False  # of its files: their format was given
    requests: RequestKind | None = None  # of a batch file

    @property
    def has_objects(self) -> bool:
        """Whether each line is a JSON object."""
        return self.format in (Format.JSONL, Format.OPENAI)

    @property
    def has_header(self) -> bool:
        """Whether it is a table whose first row names the columns."""
        return self.delimiter is not None and self.columns is None

    @classmethod
    def parse(cls, reading: str | None) -> "CorpusLayout":
        """Parse `jobs.reading`. Raises SpecError for a corpus that does not consist of lines."""
        if reading is None:
            raise SpecError(
                "the job was submitted by an older kvjobs, which did not store how its corpus is read: submit it "
                "again, or leave --format original out"
            )
        values = orjson.loads(reading)
        if values["format"] == BEIR:
            raise SpecError("the corpus is a BEIR folder, which has no line for a query; use --format trec or jsonl")
        if values["format"] == Format.FILES:
            raise SpecError("the corpus is of files, which are written with their translations: --format files")
        payload_kind = PayloadKind(values["holds"])
        return cls(
            format=Format(values["format"]),
            payload_kind=payload_kind,
            id_field=values["id_field"],
            fields=values["fields"],
            packing=values.get("packing"),
            delimiter=values.get("delimiter", SEPARATORS.get(Format(values["format"]))),
            max_line_bytes=values.get("max_line_bytes", MAX_LINE_BYTES[payload_kind]),
            columns=values.get("columns"),
            encoding=values.get("encoding"),
            is_folder=values.get("files", False),
            any_name=values.get("any_name", False),
            requests=kind_in(reading),
        )


def has_lines(reading: str | None) -> bool:
    """Whether `CorpusLayout.parse` takes it, so that the lines of the corpus can be exported."""
    return reading is not None and orjson.loads(reading)["format"] not in (BEIR, Format.FILES)


def is_text(reading: str | None) -> bool:
    """Whether a job's corpus is plain text."""
    return reading is not None and orjson.loads(reading)["format"] == Format.TXT


def is_parquet(reading: str | None) -> bool:
    """Whether the lines of a job's corpus are rows of parquet."""
    return reading is not None and orjson.loads(reading)["format"] == Format.PARQUET


@contextmanager
def copied_lines(
    layout: CorpusLayout, source: str, digest: str, first_line: int, spool: Path | None = None
) -> "Iterator[CopiedLines | None]":
    """The lines of the file or folder `source` if its digest is still `digest`, else None; `spool` as of
    `unchanged_files`. `first_line`: line of the first document. Of a folder of tables with headers: None, for each file
    has its own."""
    with ExitStack() as stack:
        is_many = layout.is_folder and layout.has_header
        files = [] if is_many else stack.enter_context(unchanged_files(source, layout, digest, spool))
        if not files or layout.is_folder:
            yield CopiedLines(layout, b"", _lines_of(files, layout), first_line) if files else None
            return
        raw = stack.enter_context(open(files[0].path, "rb", buffering=0))
        stream = stack.enter_context(closing(unpacked(HashedBytes(raw), layout.packing, encoding=layout.encoding)))
        mark = BOM if stream.peek(len(BOM)).startswith(BOM) else b""
        yield CopiedLines(layout, mark, numbered_lines(stream, layout.max_line_bytes), first_line)


@contextmanager
def unchanged_files(
    source: str, layout: CorpusLayout, digest: str, spool: Path | None = None
) -> Iterator[list[CorpusFile]]:
    """The files that `source` names (a file, a folder or a pattern); none if they have changed since the submit. What
    lies elsewhere is copied to the folder `spool` for as long as the block lasts; without one it is not read."""
    with ExitStack() as stack:
        try:
            files = stack.enter_context(local_files(_files_at(source, layout, spool), spool or Path()))
            digests = [_digest(file) for file in files]
        except (OSError, KvjobsError):
            files, digests = [], []
        is_same = digests and (digest_of_all(digests) if layout.is_folder else digests[0]) == digest
        yield files if is_same else []


def _files_at(source: str, layout: CorpusLayout, spool: Path | None) -> Sequence[AnyFile]:
    if is_address(source):
        if spool is None or is_hidden(source):
            return []
        address = Address.parse(source)
        found = choose_remote_files(address, find_remote(address), any_name=layout.any_name)
        return [found] if isinstance(found, RemoteFile) else found
    if layout.is_folder:
        return find_files(source, any_name=layout.any_name)
    return [CorpusFile(Path(source), source)] if os.path.isfile(source) else []


def _digest(file: CorpusFile) -> str:
    with open(file.path, "rb", buffering=0) as raw:
        return hashlib.file_digest(raw, "sha256").hexdigest()


def _lines_of(files: Sequence[CorpusFile], layout: CorpusLayout) -> Iterator[tuple[int, bytes | None]]:
    """The lines of all files, counted on from file to file; each has its line end."""
    before = 0
    for file in files:
        number = 0
        packing = packing_of(file.path)
        with (
            open(file.path, "rb", buffering=0) as raw,
            closing(unpacked(HashedBytes(raw), packing, encoding=layout.encoding)) as stream,
        ):
            for number, line in numbered_lines(stream, layout.max_line_bytes):
                yield before + number, line if line is None or line.endswith(b"\n") else line + b"\n"
        before += number


class CopiedLines:
    """Copies lines from a corpus that has not changed."""

    def __init__(
        self, layout: CorpusLayout, mark: bytes, lines: Iterator[tuple[int, bytes | None]], first_line: int
    ) -> None:
        """`mark`: the byte order mark that the corpus begins with, or nothing. Without it Excel misreads umlauts."""
        self._mark = mark
        self._is_table = layout.delimiter is not None
        self._has_header = layout.has_header
        self._lines = lines
        self._first_line = first_line
        self._next = next(lines, None)

    def head(self) -> bytes:
        """The mark and the header of a table."""
        header = b"".join(self._until(self._first_line)) if self._has_header else b""
        return self._mark + header if self._is_table else b""

    def line(self, document: StoredLine) -> bytes:
        """The line; of a table, where a quoted cell may contain line ends, all lines up to the next row."""
        for _ in self._until(document.line):
            pass
        stop = (document.next_line or END) if self._is_table else document.line + 1
        found = list(self._until(stop))
        while found and not found[-1].strip():
            found.pop()
        return b"".join(found)

    def _until(self, stop: int) -> Iterator[bytes]:
        """The lines before `stop`. (No document's line is too long.)"""
        while self._next is not None and self._next[0] < stop:
            yield self._next[1] or b""
            self._next = next(self._lines, None)


class RewrittenLines:
    """Writes lines from what the job stores."""

    def __init__(self, layout: CorpusLayout, columns: Sequence[str], *, has_ids: bool) -> None:
        """For a table with a header, `columns` are its columns except id and payload, and `has_ids` says whether it has
        a column of ids."""
        self._layout = layout
        self._columns = layout.columns or [*([layout.id_field] if has_ids else []), *layout.fields.values(), *columns]

    def head(self) -> bytes:
        """The header of a table."""
        return self._row(self._columns) if self._layout.has_header else b""

    def line(self, document: StoredLine) -> bytes:
        """The bytes of a document's line, or of its row in a table."""
        if self._layout.format is Format.TXT:
            return f"{document.text}\n".encode()
        values = stored_values(self._layout, document)
        if self._layout.has_objects:
            return orjson.dumps(values) + b"\n"
        return self._row([values.get(name, "") for name in self._columns])

    def _row(self, cells: Sequence[Any]) -> bytes:
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=self._layout.delimiter or ",", lineterminator="\n").writerow(cells)
        return buffer.getvalue().encode()


def stored_values(layout: CorpusLayout, document: StoredLine) -> dict[str, Any]:
    """The values of a line by field, from what the job stores."""
    values = read_fields(document.fields)
    text = document.text or ""
    if layout.requests is not None:
        values = put_request_back(values, text, layout.requests)
    payload = {"text": text} if layout.payload_kind is PayloadKind.TEXT else orjson.loads(text or "{}")
    may_lack = layout.payload_kind is PayloadKind.MESSAGES  # a line has messages or a text
    for role, field in reversed(list(layout.fields.items())):
        if role in payload or not may_lack:
            values = put_back(values, field, payload.get(role))
    if not document.unnamed and document.external_id is not None:
        number = orjson.Fragment(document.external_id) if document.numeric_id else None
        values = put_back(values, layout.id_field, document.external_id if number is None else number)
    return values


class AddedLines:
    """Lines of a corpus, each with values for `names` added at its end; the rest stays the same, byte for byte.

    jsonl      {"id": 7, "text": "one"}      ->  {"id": 7, "text": "one", "perplexity": 12.5}
    csv, tsv   7,"one"                       ->  7,"one",12.5
    txt        one                           ->  one<tab>12.5
    """

    def __init__(self, lines: Lines, layout: CorpusLayout, names: Sequence[str]) -> None:
        self._lines = lines
        self._layout = layout
        self._names = names
        self._head = lines.head()
        self._quotes_all = layout.has_header and self._is_quoted(layout.delimiter or ",")

    def head(self) -> bytes:
        """The header of a table, with the names added."""
        return _behind(self._head, self._cells(self._names)) if self._layout.has_header else self._head

    def line(self, document: StoredLine, values: Sequence[str]) -> bytes:
        """A line with a value for each name: JSON for JSON Lines, else the text of a cell. Raises SpecError where the
        line already has a field of that name."""
        line = self._lines.line(document)
        if self._layout.has_objects:
            self._check_names(document)
            return _into_object(line, zip(self._names, values, strict=True))
        if self._layout.delimiter:
            return _behind(line, self._cells(values))
        return _behind(line, "".join(f"\t{value}" for value in values))

    def _cells(self, values: Sequence[str]) -> str:
        """Values as the cells that follow others in a row."""
        delimiter = self._layout.delimiter or ","
        # With "-" before them: csv quotes an empty cell only where it is alone, so that its row is not a blank line.
        return _row(["-", *values], delimiter, quotes_all=self._quotes_all).removeprefix(
            '"-"' if self._quotes_all else "-"
        )

    def _is_quoted(self, delimiter: str) -> bool:
        """Whether every cell of the header is quoted."""
        header = self._head.decode("utf-8-sig", "replace").strip("\r\n")
        names = next(csv.reader(io.StringIO(header, newline=""), delimiter=delimiter), [])
        return _row(names, delimiter, quotes_all=True) == header

    def _check_names(self, document: StoredLine) -> None:
        for name in self._names:
            written = json.dumps(name, ensure_ascii=False)
            if document.fields and written in document.fields and name in json.loads(document.fields):
                raise SpecError(
                    f"line {document.line} of the corpus has a field {name!r} already; choose another name: "
                    f"--add {name}=OTHER"
                )


def _row(values: Sequence[str], delimiter: str, *, quotes_all: bool) -> str:
    buffer = io.StringIO()
    if quotes_all:
        csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerow(values)
    else:
        csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerow(values)
    return buffer.getvalue().removesuffix("\r\n")


def _behind(line: bytes, more: str) -> bytes:
    """`more` inserted before the line end of the (last) line."""
    body = line.rstrip(b"\r\n")
    return body + more.encode() + line[len(body) :]


def _into_object(line: bytes, members: "zip[tuple[str, str]]") -> bytes:
    """Members added as the last ones of an object, spaced as the line is."""
    end = line.rindex(b"}")
    body = line[:end].rstrip()
    comma, colon = (", ", ": ") if b'": ' in line else (",", ":")
    more = "".join(f"{comma}{json.dumps(name, ensure_ascii=False)}{colon}{value}" for name, value in members)
    return body + more.encode() + line[len(body) :]
