"""The formats of corpora: which one the name of a file stands for, what separates the cells of a table.

Knows: endings of names. Does not know: bytes, options.
"""

import enum
from collections.abc import Sequence
from pathlib import Path, PurePath

from jobs.compression import inner_suffix
from jobs.corpus.folder import AnyFile
from jobs.documents import quoted
from jobs.errors import CorpusError, SpecError, meant


class Format(enum.StrEnum):
    """The format of a corpus."""

    JSONL = "jsonl"  # an object per line
    TXT = "txt"  # a document per line
    CSV = "csv"  # with a header, or with `Corpus.columns`
    TSV = "tsv"  # likewise
    PARQUET = "parquet"  # a row a document
    OPENAI = "openai"  # a batch file: a request per line
    FILES = "files"  # files that come back as they were, translated: a document per unit


FORMATS = ", ".join(Format)
SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".txt": Format.TXT,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".parquet": Format.PARQUET,
}
WITH_LISTS = (Format.JSONL, Format.PARQUET, Format.OPENAI)  # whose fields may be lists
SEPARATORS = {Format.CSV: ",", Format.TSV: "\t"}
DELIMITER_NAMES = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " ", r"\t": "\t"}


def format_of(path: PurePath) -> Format | None:
    """The format that the ending of a file's name stands for."""
    return SUFFIXES.get(inner_suffix(path) or "")


def format_of_all(files: Sequence[AnyFile], given: Format | None) -> Format:
    """The one format of all files, the given one where there is one. Raises CorpusError where there are several."""
    by_format: dict[Format, str] = {given: "--format"} if given else {}
    for file in files:
        form = format_of(Path(file.name)) or given
        if form is None:
            raise CorpusError(
                f"the name of {quoted(file.name)} has no suffix of a known format; say the format of all files with "
                "--format, or name some of them by a pattern: 'FOLDER/*.jsonl'"
            )
        by_format.setdefault(form, quoted(file.name))
    if len(by_format) > 1:
        found = " and ".join(f"{form} ({name})" for form, name in by_format.items())
        raise CorpusError(
            f"its files are of several formats: {found}; name those of one by a pattern: 'FOLDER/*.jsonl'"
        )
    return next(iter(by_format))


def separator_of(delimiter: str) -> str:
    """The character that --delimiter means. Raises SpecError for a value that cannot be one."""
    separator = DELIMITER_NAMES.get(delimiter.lower(), delimiter)
    if len(separator) != 1 or separator in '"\r\n\0' or separator.isalnum():
        names = ", ".join(name for name in DELIMITER_NAMES if name.isalpha())
        near = meant(delimiter, DELIMITER_NAMES)
        raise SpecError(f"{quoted(delimiter)} cannot be a delimiter{near}; give one character, such as ';', or {names}")
    return separator
