"""A corpus as the user names it: its path, its format, its fields.

Knows: file names, formats, options. Does not know: bytes.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from jobs.addresses.address import Address, is_address, is_hidden, located
from jobs.addresses.listing import RemoteFile, find_remote
from jobs.compression import packing_of
from jobs.corpus import beir
from jobs.corpus.beir import BeirRun
from jobs.corpus.corpus_format import (
    FORMATS,
    SEPARATORS,
    SUFFIXES,
    WITH_LISTS,
    Format,
    format_of,
    format_of_all,
    separator_of,
)
from jobs.corpus.encodings import encoding_named
from jobs.corpus.folder import AnyFile, choose_remote_files, find_files, is_pattern, printable
from jobs.corpus.openai.requests import ID, Requests
from jobs.corpus.payload import TakePayload, take_candidates, take_messages, take_pair, take_text
from jobs.corpus.translatable.file_list import choose_translatable, find_translatable
from jobs.corpus.translatable.reader import UnitReading
from jobs.corpus.unpacking import NO_FILE, naming
from jobs.documents import quoted, repeated
from jobs.errors import CorpusError, SpecError, meant
from jobs.tasks.kind import PayloadKind

# A query with a thousand candidates of a paragraph each is one line.
MAX_LINE_BYTES = {
    PayloadKind.TEXT: 1 << 20,
    PayloadKind.PAIRS: 1 << 20,
    PayloadKind.CANDIDATES: 1 << 24,
    PayloadKind.MESSAGES: 1 << 20,
}
MAX_WINDOWED_BYTES = 1 << 24  # of a text that is scored in windows, however long it is: WikiText-2 as one is 1.3 MB
MOST_LINE_BYTES = 1 << 29  # PostgreSQL holds no value of 1 GiB, and the text may take more bytes than the line


BEIR = "beir"  # a folder, with a run
# `Corpus.source` of documents that no path leads to: nobody can read them again.
STDIN, PROGRAM, UPLOAD = "standard input", "rows of a program", "an upload"
STREAMS = (STDIN, PROGRAM, UPLOAD)
FIELD_TYPES = "types"  # the key of `Corpus.field_types` in `jobs.reading`


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A corpus and how to read it. Raises SpecError for options that contradict each other. No file is opened; folders
    are listed."""

    path: (
        str | os.PathLike[str]
    )  # or an address; "-" is standard input, or `stream`; a folder, a pattern: all its files
    stream: BinaryIO | None = None  # an open file that can be read twice, in place of standard input
    stream_source: str = ""  # what messages and the job's row call a stream, or files that are gone afterwards
    format: str | None = None  # None: by the file's suffix; jsonl from standard input
    delimiter: str | None = None  # of csv and tsv: one character, or a name; None: the format's own
    columns: tuple[str, ...] | None = None  # of csv and tsv without a header: the names of their columns
    encoding: str | None = None  # by any name of Python's; None: UTF-8
    payload_kind: PayloadKind = PayloadKind.TEXT
    requests: Requests | None = None  # of a batch file: what its requests have in common
    id_field: str = "id"
    text_field: str = "text"
    source_field: str = "source"  # of pairs: the field of the source
    target_field: str = "target"
    language_field: str | None = None  # field with a document's language; None: all documents have the same one
    default_language: str | None = None  # language of a document whose field is missing
    own_fields: Mapping[str, str] = field(default_factory=dict)  # by option: the field that says it of a document
    field_types: Mapping[str, Any] | None = None  # of fields that JSON has no type for; kept for whoever reads results
    run: str | os.PathLike[str] | None = None  # a TREC run of candidates, or its address: then `path` is a BEIR folder
    max_line_bytes: int | None = None  # longer lines are rejected; None: `default_line_bytes`
    in_windows: bool = False  # whether the model reads a text of any length, in windows
    units: UnitReading = field(default_factory=UnitReading)  # of files that are translated as files
    shown: str | None = None  # its name in messages, where that is not its path: of a copy
    files: tuple[AnyFile, ...] | None = field(init=False, default=None, repr=False)  # of a folder, or of a pattern
    remote_file: RemoteFile | None = field(init=False, default=None, repr=False)  # the one file at an address
    beir_run: BeirRun | None = field(init=False, default=None, repr=False)  # the BEIR folder with its run
    _format_of_files: Format | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        if self.requests is not None:
            object.__setattr__(self, "id_field", ID)
        if self.run is not None:
            if self.payload_kind is not PayloadKind.CANDIDATES or self.format is not None:
                raise SpecError("a run is of a BEIR folder, whose queries are reranked; leave the format out")
            if self.columns is not None or self.decoded_as is not None:
                raise SpecError("a BEIR folder has JSON Lines in UTF-8; leave --columns and --encoding out")
            object.__setattr__(self, "beir_run", BeirRun(located(os.fspath(self.path)), located(os.fspath(self.run))))
            return
        if not self._find_translatable():
            self._find_files()
        names = [self.id_field, *self.payload_fields.values()]
        if twice := repeated(names):
            what = " and the ".join(["id", *self.payload_fields])
            raise SpecError(f"the {what} cannot both be in the field {twice!r}; change one of the two")
        if not 1 <= self.line_limit <= MOST_LINE_BYTES:
            raise SpecError(
                f"--max-text is {self.line_limit:,} bytes; the smallest is 1, the largest {MOST_LINE_BYTES:,}"
            )
        read_as = self.read_as
        _ = self.separator
        self._check_columns(names)
        if self.decoded_as and read_as is Format.PARQUET:
            raise SpecError(f"--encoding is for text, and {self.source} is read as parquet; leave it out")
        if read_as is Format.FILES:
            self._check_translatable()
        if self.payload_kind is PayloadKind.PAIRS and read_as is Format.TXT:
            raise SpecError(
                f"a pair needs two fields, and {self.source} is read as txt, which has one; write jsonl or csv"
            )
        if self.packing and read_as is Format.PARQUET:
            raise SpecError(
                f"{self.source}: parquet is compressed inside and cannot be read from a packed file; unpack it"
            )
        if self.payload_kind is PayloadKind.CANDIDATES and read_as not in WITH_LISTS:
            raise SpecError(
                f"queries with their candidates are written in jsonl or parquet, and {self.source} is read as "
                f'{read_as}; write lines like {{"id": ..., "query": ..., "candidates": [{{"id": ..., "text": ...}}, '
                "...]}"
            )

    @property
    def payload_fields(self) -> dict[str, str]:
        """Names of the fields of the payload, by role; none for a batch file, whose requests say it."""
        if self.requests is not None:
            return {}
        match self.payload_kind:
            case PayloadKind.TEXT:
                return {"text": self.text_field}
            case PayloadKind.PAIRS:
                return {"source": self.source_field, "target": self.target_field}
            case PayloadKind.CANDIDATES:
                return {"query": "query", "candidates": "candidates"}
            case PayloadKind.MESSAGES:
                return {"text": self.text_field, "messages": "messages"}

    @property
    def take_payload(self) -> TakePayload:
        """The function that takes the payload out of a line's values."""
        match self.payload_kind:
            case PayloadKind.TEXT:
                return take_text(self.text_field)
            case PayloadKind.PAIRS:
                return take_pair(self.source_field, self.target_field)
            case PayloadKind.CANDIDATES:
                return take_candidates
            case PayloadKind.MESSAGES:
                return take_messages(self.text_field)

    @property
    def line_limit(self) -> int:
        """Bytes of the longest line, in UTF-8, that is not rejected."""
        default = default_line_bytes(self.payload_kind, in_windows=self.in_windows)
        return default if self.max_line_bytes is None else self.max_line_bytes

    @property
    def has_own_limit(self) -> bool:
        """Whether the limit on the length of a line is not the default."""
        return self.line_limit != default_line_bytes(self.payload_kind, in_windows=self.in_windows)

    @property
    def decoded_as(self) -> str | None:
        """The encoding as Python names it; None for UTF-8. Raises SpecError for a name that is none."""
        return None if self.encoding is None else encoding_named(self.encoding)

    @property
    def reading(self) -> str:
        """How the corpus is read, as JSON for the job's row: what is needed to write its lines again."""
        if self.run is not None:
            return json.dumps({"format": BEIR, "holds": self.payload_kind})
        how: dict[str, object] = {"format": self.read_as, "holds": self.payload_kind, "id_field": self.id_field}
        how |= self.requests.reading if self.requests is not None else {}
        how |= {"packing": self.packing} if self.packing else {}
        how |= {"files": True, "any_name": self.format is not None} if self.files is not None else {}
        how |= {"units": self.unit_reading} if self.is_translatable else {}
        how |= {"delimiter": self.separator} if self.has_own_separator else {}
        how |= {"columns": self.columns} if self.columns is not None else {}
        how |= {"encoding": self.decoded_as} if self.decoded_as is not None else {}
        how |= {"max_line_bytes": self.line_limit} if self.has_own_limit or self.in_windows else {}
        how |= {"language_field": self.language_field} if self.language_field is not None else {}
        how |= {f"{option}_field": name for option, name in sorted(self.own_fields.items())}
        how |= {FIELD_TYPES: self.field_types} if self.field_types else {}
        return json.dumps(how | {"fields": self.payload_fields})

    @property
    def is_translatable(self) -> bool:
        """Whether it is made of files that come back as they were, translated."""
        return self._format_of_files is Format.FILES

    @property
    def unit_reading(self) -> dict[str, object]:
        """How the units of translated files are found, and whether there is one file without a folder."""
        one = os.path.isfile(self.path) or self.remote_file is not None
        name = None if self.remote_file is None else self.remote_file.name
        if one and self.is_passing:
            name = os.path.basename(self.path)
        given = {
            "again": self.units.again,
            "target_language": self.units.target_language,
            "one": one,
            "name": name,
        }
        return {name: value for name, value in given.items() if value}

    @property
    def lies_here(self) -> bool:
        """Whether its files lie on this machine, where they can be read again."""
        return self.address is None and not self.is_passing

    @property
    def is_passing(self) -> bool:
        """Whether nobody can read it again once it was read: a stream, or files that were sent."""
        return self.stream is not None or bool(self.stream_source)

    @property
    def is_stdin(self) -> bool:
        return os.fspath(self.path) == "-"

    @property
    def address(self) -> Address | None:
        """Where the corpus lies on another machine. Raises SpecError for an address that is not read."""
        path = os.fspath(self.path)
        return Address.parse(path) if is_address(path) else None

    @property
    def is_file(self) -> bool:
        """Whether the corpus can be read a second time by what is stored of it, unlike a pipe."""
        if self.is_passing:
            return False
        if self.run is not None or self.files is not None or self.remote_file is not None:
            return not is_hidden(self.source)
        return not self.is_stdin and os.path.isfile(self.path)

    @property
    def read_as(self) -> Format:
        """The given format, else the one of the file's suffix. Raises SpecError where there is none."""
        if self.requests is not None:
            return Format.OPENAI
        if self.format is not None:
            if self.format not in tuple(Format):
                raise SpecError(f"there is no format {self.format!r}{meant(self.format, Format)}; known are {FORMATS}")
            return Format(self.format)
        if self.is_stdin:
            return Format.JSONL
        if self._format_of_files is not None:
            return self._format_of_files
        form = format_of(self._named)
        if form is None:
            with naming(self.source):  # a missing file is a better explanation than a missing format
                if not (self.address or os.path.exists(self.path)):
                    raise CorpusError(NO_FILE)
            raise SpecError(f"the name of {self.source} has no suffix of a known format; say which: --format {FORMATS}")
        return form

    @property
    def separator(self) -> str | None:
        """The character between two cells; None for a format without cells."""
        read_as = self.read_as
        if self.delimiter is None:
            return SEPARATORS.get(read_as)
        if read_as not in SEPARATORS:
            raise SpecError(f"--delimiter is for csv and tsv, and {self.source} is read as {read_as}; leave it out")
        return separator_of(self.delimiter)

    @property
    def has_own_separator(self) -> bool:
        """Whether the separator of cells differs from the default of the format."""
        return self.separator != SEPARATORS.get(self.read_as)

    @property
    def packing(self) -> str | None:
        """The compression that the file's suffix names. (Standard input is recognized by its first bytes.)"""
        return None if self.files is not None else packing_of(self._named)

    @property
    def _named(self) -> Path:
        """The path, or the name of the file at an address, which says its format."""
        return Path(self.path if (address := self.address) is None else address.name)

    @property
    def source(self) -> str:
        """The path or paths of the corpus, for messages and for the job's row; an address without its secrets."""
        if self.shown is not None:
            return self.shown
        if self.beir_run:
            return self.beir_run.source
        if self.stream_source:
            return self.stream_source
        if (address := self.address) is not None:
            return str(address)
        if self.is_stdin:
            return STDIN
        return printable(os.path.abspath(self.path))

    def _check_columns(self, needed: Sequence[str]) -> None:
        """Raise SpecError where `columns` are not names of a table with the `needed` ones, the id's first."""
        if self.columns is None:
            return
        if self.read_as not in SEPARATORS:
            raise SpecError(f"--columns is for csv and tsv, and {self.source} is read as {self.read_as}; leave it out")
        if "" in self.columns:
            raise SpecError("--columns has a name that is empty; give every column of the table a name, in their order")
        if twice := repeated(self.columns):
            raise SpecError(f"--columns has the name {quoted(twice, 30)} twice; change one")
        for role, name in zip(["id", *self.payload_fields], needed, strict=True):
            if name not in self.columns and (role, name) != ("id", "id"):
                have = ", ".join(quoted(column, 30) for column in self.columns)
                raise SpecError(
                    f"--columns has no {quoted(name)} (it has {have}); name a column so, or say which one it is with "
                    f"--{role}-field"
                )

    def _find_translatable(self) -> bool:
        """Look whether the path is of files that are translated as files, and which. Raises CorpusError for one that
        may be both, or that has none although they are asked for."""
        path, is_asked = os.fspath(self.path), self.format == Format.FILES
        if self.requests is not None or self.is_stdin or is_address(path) or self.format not in (None, Format.FILES):
            return False
        with naming(self.source):
            files = find_translatable(path, is_asked=is_asked, documents=tuple(SUFFIXES))
        if files is None:
            return False
        self._set_files(files, Format.FILES)
        return True

    def _check_translatable(self) -> None:
        """Raise SpecError for what files that are translated as files do not have."""
        if not self.is_translatable:
            raise SpecError(f"--format files is for a file or a folder, and {self.source} is none")
        if self.payload_kind is not PayloadKind.TEXT:
            raise SpecError(
                f"{self.source} is read as files, whose units are texts to translate; write "
                f"{self.payload_kind} as JSON Lines"
            )
        if self.decoded_as:
            raise SpecError("--encoding is for text, and the formats of files say theirs; leave it out")

    def _find_files(self) -> None:
        """Look which files a folder or a pattern names. Raises CorpusError where they are not of one format."""
        path, given = os.fspath(self.path), None if self.format is None else self.read_as
        given = Format.JSONL if given is Format.OPENAI else given  # by the names of the files
        if (address := self.address) is None and (self.is_stdin or not (os.path.isdir(path) or is_pattern(path))):
            return
        with naming(self.source):
            files: Sequence[AnyFile] | RemoteFile
            if address is None:
                files = find_files(path, any_name=given is not None)
            else:
                found, is_asked = find_remote(address), given is Format.FILES
                translatable = None
                if self.requests is None and given in (None, Format.FILES):
                    translatable = choose_translatable(address, found, is_asked=is_asked, documents=tuple(SUFFIXES))
                if isinstance(found, RemoteFile):
                    object.__setattr__(self, "remote_file", found)
                if translatable is not None:
                    self._set_files(translatable, Format.FILES)
                    return
                files = choose_remote_files(address, found, any_name=given is not None)
            if isinstance(files, RemoteFile):
                return
            if not is_pattern(path) and beir.is_beir({file.name for file in files}):
                raise CorpusError(beir.ADVICE)
            form = format_of_all(files, given)
        self._set_files(files, form)

    def _set_files(self, files: Sequence[AnyFile], form: Format) -> None:
        object.__setattr__(self, "files", tuple(files))
        object.__setattr__(self, "_format_of_files", form)


def default_line_bytes(kind: PayloadKind, *, in_windows: bool) -> int:
    """Bytes of the longest line, where no option says it."""
    return MAX_WINDOWED_BYTES if in_windows and kind is PayloadKind.TEXT else MAX_LINE_BYTES[kind]
