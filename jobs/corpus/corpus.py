"""A corpus as the user names it: its path, its format, its fields.

Knows: file names, formats, options. Does not know: bytes.
"""

import enum
import json
import os
from dataclasses import dataclass
from pathlib import Path

from jobs.corpus.beir import BeirRun
from jobs.corpus.payload import PayloadKind
from jobs.corpus.read_errors import NO_FILE, folder_advice, naming
from jobs.documents import quoted
from jobs.errors import CorpusError, SpecError

# A query with a thousand candidates of a paragraph each is one line.
MAX_LINE_BYTES = {PayloadKind.TEXT: 1 << 20, PayloadKind.PAIRS: 1 << 20, PayloadKind.CANDIDATES: 1 << 24}


class Format(enum.StrEnum):
    """The format of a corpus."""

    JSONL = "jsonl"  # an object per line
    TXT = "txt"  # a document per line
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
PACKINGS = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A corpus and how to read it. Raises SpecError for options that contradict each other. No file is opened."""

    path: str | os.PathLike[str]  # "-" is standard input
    format: str | None = None  # None: by the file's suffix; jsonl from standard input
    delimiter: str | None = None  # of csv and tsv: one character, or a name; None: the format's own
    payload_kind: PayloadKind = PayloadKind.TEXT
    id_field: str = "id"
    text_field: str = "text"
    source_field: str = "source"  # of pairs
    target_field: str = "target"
    run: str | os.PathLike[str] | None = None  # a TREC run of candidates: then `path` is a BEIR folder
    max_line_bytes: int | None = None  # longer lines are rejected; None: `MAX_LINE_BYTES`

    def __post_init__(self) -> None:
        if self.run is not None:
            if self.payload_kind is not PayloadKind.CANDIDATES or self.format is not None:
                raise SpecError("a run is of a BEIR folder, whose queries are reranked; leave the format out")
            _ = self.beir_run
            return
        names = [self.id_field, *self.payload_fields.values()]
        if twice := [name for index, name in enumerate(names) if name in names[:index]]:
            what = " and the ".join(["id", *self.payload_fields])
            raise SpecError(f"the {what} cannot both be in the field {twice[0]!r}; change one of the two")
        if self.line_limit < 1:
            raise SpecError(f"max_line_bytes is {self.line_limit}; the smallest is 1")
        read_as = self.read_as
        _ = self.separator
        if self.payload_kind is PayloadKind.PAIRS and read_as is Format.TXT:
            raise SpecError(
                f"a pair needs two fields, and {self.source} is read as txt, which has one; write jsonl or csv"
            )
        if self.payload_kind is PayloadKind.CANDIDATES and read_as is not Format.JSONL:
            raise SpecError(
                f"queries with their candidates are written in jsonl, and {self.source} is read as {read_as}; "
                'write lines like {"id": ..., "query": ..., "candidates": [{"id": ..., "text": ...}, ...]}'
            )

    @property
    def payload_fields(self) -> dict[str, str]:
        """Names of the fields of the payload, by role."""
        match self.payload_kind:
            case PayloadKind.TEXT:
                return {"text": self.text_field}
            case PayloadKind.PAIRS:
                return {"source": self.source_field, "target": self.target_field}
            case PayloadKind.CANDIDATES:
                return {"query": "query", "candidates": "candidates"}

    @property
    def line_limit(self) -> int:
        """Bytes of the longest line that is not rejected."""
        return MAX_LINE_BYTES[self.payload_kind] if self.max_line_bytes is None else self.max_line_bytes

    @property
    def reading(self) -> str:
        """How the corpus is read, as JSON for the job's row: what is needed to write its lines again."""
        if self.run is not None:
            return json.dumps({"format": BEIR, "holds": self.payload_kind})
        how: dict[str, object] = {"format": self.read_as, "holds": self.payload_kind, "id_field": self.id_field}
        how |= {"packing": self.packing} if self.packing else {}
        how |= {"delimiter": self.separator} if self.has_own_separator else {}
        return json.dumps(how | {"fields": self.payload_fields})

    @property
    def is_stdin(self) -> bool:
        return os.fspath(self.path) == "-"

    @property
    def beir_run(self) -> BeirRun | None:
        """The BEIR folder with its run, where the corpus is one."""
        return None if self.run is None else BeirRun(Path(self.path), Path(self.run))

    @property
    def is_file(self) -> bool:
        """Whether it can be read again, unlike a pipe."""
        return self.run is not None or (not self.is_stdin and os.path.isfile(self.path))

    @property
    def read_as(self) -> Format:
        """The given format, else the one of the file's suffix. Raises SpecError where there is none."""
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
            with naming(self.source):  # a missing file is a better explanation than a missing format
                if os.path.isdir(self.path):
                    raise CorpusError(folder_advice(self.path))
                if not os.path.exists(self.path):
                    raise CorpusError(NO_FILE)
            raise SpecError(f"the name of {self.source} has no suffix of a known format; say which: --format {FORMATS}")
        return SUFFIXES[suffix]

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
        """Whether the separator is not the format's own."""
        return self.separator != SEPARATORS.get(self.read_as)

    @property
    def packing(self) -> str | None:
        """The compression that the file's suffix says. (Compressed standard input is recognized by its first bytes.)"""
        return PACKINGS.get(Path(self.path).suffix.lower())

    @property
    def source(self) -> str:
        """The path or paths of the corpus, for messages and for the job's row."""
        if self.beir_run:
            return self.beir_run.source
        if self.is_stdin:
            return "standard input"
        path = os.fsencode(os.path.abspath(self.path)).decode("utf-8", "backslashreplace")
        return path if path.isprintable() else path.encode("unicode_escape").decode()


def separator_of(delimiter: str) -> str:
    """The character that --delimiter means. Raises SpecError for a value that cannot be one."""
    separator = DELIMITER_NAMES.get(delimiter.lower(), delimiter)
    if len(separator) != 1 or separator in '"\r\n\0' or separator.isalnum():
        names = ", ".join(name for name in DELIMITER_NAMES if name.isalpha())
        raise SpecError(f"{quoted(delimiter)} cannot be a delimiter; give one character, such as ';', or {names}")
    return separator
