"""A document as a line of an export: JSON Lines, CSV, TSV or plain text.

    {"id", "status", "translation", "flags"?, "nbest"?, "error"?: {"code", "message", "line"}, ...}
    {"id", "status", "score": {"nll_sum", "num_tokens", ..., "perplexity", ...}, "flags"?, "tokens"?, "error"?, ...}
    {"id", "status", "ranking": [{"id", "rank", "score", "first_score"?, "error"?}, ...], "flags"?, "error"?, ...}

A translation through two models has "via" behind "translation": the text between them. A job with other providers than
onnx alone has "provider" too: who answered, null without a result.

The other fields of the corpus' line follow under their own names. A field with the name of one of these keys is kept
under "fields" instead.
"""

import enum
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from jobs.export.delimited_rows import DelimitedRows, id_cell
from jobs.export.result_columns import Extra, Shape, extra_keys, extra_values, shape_of
from jobs.spec import has_payload
from jobs.text.formatting import visible
from jobs.text.json_numbers import is_number, read_fields
from jobs.text.json_text import to_json

if TYPE_CHECKING:
    from jobs.store.report.documents.export import ExportedDocument
    from jobs.store.report.job_summary import JobSummary


class Format(enum.StrEnum):
    """The formats of an export."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"  # a table with typed columns
    TXT = "txt"  # only the translation or the perplexity, a line a document
    ORIGINAL = "original"  # the lines of the corpus as they were submitted
    TREC = "trec"  # rankings as a TREC run
    COHERE = "cohere"  # rankings as the answers of Cohere's rerank endpoint
    OPENAI = "openai"  # the output lines of OpenAI's Batch API
    FILES = "files"  # the files of the corpus with their translations; to a stream one file, or a zip of several


# What Python, a terminal or another program takes for the end of a line.
_BREAKS = re.compile("[ \\t]*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+[ \\t]*")


class RecordFormat(Protocol):
    """Writes a format: `head` is the beginning of the file, `line` a document, `tail` its end."""

    def head(self) -> bytes: ...

    def line(self, document: "ExportedDocument") -> bytes: ...

    def tail(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class JsonLines:
    """One JSON object a line."""

    shape: Shape
    extras: Sequence[str] = ()  # keys
    is_payload: bool = False  # the text is itself JSON: a pair, or a query with its candidates

    def head(self) -> bytes:
        return b""

    def line(self, document: "ExportedDocument") -> bytes:
        record: dict[str, Any] = {"id": json_id(document), "status": document.status}
        record |= self.shape.in_json(document.result)
        record |= extra_values(self.shape, self.extras, document)
        if self.is_payload and record.get("text"):
            record["text"] = orjson.loads(record["text"])
        if document.error_code or document.error:
            record["error"] = {"code": document.error_code, "message": document.error, "line": document.line}
        own, hidden = split_fields(document, self.shape.keys)
        record.update(own)
        if hidden:
            record["fields"] = hidden
        return to_json(record) + b"\n"

    def tail(self) -> bytes:
        return b""


@dataclass(frozen=True)
class Delimited:
    """CSV and TSV: a row a document, of a ranking a row a candidate."""

    shape: Shape
    rows: DelimitedRows
    field_columns: Sequence[str]  # fields of the corpus that are columns; the rest is JSON in the column `fields`
    extras: Sequence[str] = ()  # keys
    optional: Sequence[str] = ()  # columns that depend on the options of the job

    @cached_property
    def columns(self) -> list[str]:
        return [
            *("id", "status", *self.shape.columns, "flags", *self.optional, *self.extras),
            *(name for name in self.field_columns if name not in self.shape.table_keys),
            *("error_code", "error", "line", "fields"),
        ]

    def head(self) -> bytes:
        return self.rows.row(self.columns)

    def line(self, document: "ExportedDocument") -> bytes:
        own, hidden = split_fields(document, self.shape.table_keys)
        for name in own.keys() - set(self.field_columns):
            hidden[name] = own.pop(name)
        cells: dict[str, Any] = {
            "id": id_cell(document),
            "status": document.status,
            "flags": document.result.get("flags"),
            **extra_values(self.shape, self.extras, document),
            "error_code": document.error_code,
            "error": document.error,
            "line": document.line,
            **own,
            "fields": {name: hidden[name] for name in sorted(hidden)} or None,
        }
        rows = (cells | row for row in self.shape.in_table(document.result))
        return b"".join(self.rows.row([row.get(name) for name in self.columns]) for row in rows)

    def tail(self) -> bytes:
        return b""


class PlainLines:
    """A line a document, empty where there is no result; line breaks within a text are written as spaces."""

    def __init__(self, shape: Shape, keeps_blank_lines: bool, to_terminal: bool = False) -> None:
        """With `keeps_blank_lines`, line N belongs to the document on line N of the corpus."""
        self._shape = shape
        self._keeps_blank_lines = keeps_blank_lines
        self._clean = visible if to_terminal else str
        self._next_line = 1

    def head(self) -> bytes:
        return b""

    def line(self, document: "ExportedDocument") -> bytes:
        num_blank = document.line - self._next_line if self._keeps_blank_lines else 0
        self._next_line = document.line + 1
        text = self._shape.as_text(document.result) if document.result else None
        return b"\n" * num_blank + f"{self._clean(one_line(text or ''))}\n".encode()

    def tail(self) -> bytes:
        return b""


def one_line(text: str) -> str:
    """The text with its line breaks, of any kind, replaced by spaces."""
    return _BREAKS.sub(" ", text).strip()


def record_format(
    form: Format,
    job: "JobSummary",
    *,
    extras: Sequence[Extra],
    field_columns: Sequence[str],
    defuse: bool = True,
    delimiter: str = ",",
    keeps_blank_lines: bool = False,
    to_terminal: bool = False,
) -> RecordFormat:
    """The writer of a format; raises SpecError for an extra that the job's task does not have."""
    shape, options = shape_of(job), json.loads(job.options)
    keys = extra_keys(shape, extras)
    if form is Format.JSONL:
        return JsonLines(shape, keys, is_payload=has_payload(job.task, options))
    if form is Format.TXT:
        return PlainLines(shape, keeps_blank_lines, to_terminal)
    rows = DelimitedRows(form is Format.TSV, defuse, delimiter, to_terminal)
    return Delimited(shape, rows, field_columns, keys, shape.asked_for(options))


def json_id(document: "ExportedDocument") -> Any:
    """The id as written in the corpus; a number of any length stays exact."""
    written = document.external_id
    return orjson.Fragment(written) if document.numeric_id and written and is_number(written) else written


def split_fields(document: "ExportedDocument", reserved: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The other fields of the corpus' line: those under their own names, and those whose names are reserved."""
    fields = read_fields(document.fields)
    if reserved.isdisjoint(fields):
        return fields, {}
    own = {name: value for name, value in fields.items() if name not in reserved}
    return own, {name: value for name, value in fields.items() if name in reserved}
