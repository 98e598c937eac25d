"""A document as a line of an export: JSON Lines, CSV or TSV.

    {"id", "status", "translation", "flags"?, "nbest"?, "error"?: {"code", "message", "line"}, ...}

The other fields of the corpus' line follow by their own names. One that has the name of a key of ours is never lost
and never in its place: it stands under "fields".
"""

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import orjson

from jobs.cli.output import csv_cell, csv_line, to_json
from jobs.cli.terminal import visible
from jobs.store.export import ExportedDocument


class Format(enum.StrEnum):
    """How an export is written."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"


class Extra(enum.StrEnum):
    """What an export can hold besides; the times and the numbers of a run differ from the next run's."""

    TEXT = "text"  # the source
    LOG_PROB = "log_prob"  # of the translation, natural logarithm
    TOKENS = "tokens"  # of source and translation


EXTRA_KEYS = {
    Extra.TEXT: ("text",),
    Extra.LOG_PROB: ("log_prob",),
    Extra.TOKENS: ("num_source_tokens", "num_target_tokens"),
}

# Ours, whether a record has them or not: so a field of the corpus is found in the same place in every record.
KEYS = frozenset({"id", "status", "translation", "flags", "nbest", "error", "fields"}.union(*EXTRA_KEYS.values()))
# In a table the error is flat.
TABLE_KEYS = KEYS | {"error_code", "error_message", "line"}

_JSON_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


class RecordFormat(Protocol):
    """Bytes that a file begins with, and those of one document."""

    def head(self) -> bytes: ...

    def line(self, document: ExportedDocument) -> bytes: ...


@dataclass(frozen=True, slots=True)
class JsonLines:
    """One JSON object a line."""

    extras: Sequence[Extra] = ()

    def head(self) -> bytes:
        return b""

    def line(self, document: ExportedDocument) -> bytes:
        record: dict[str, Any] = {
            "id": _id(document),
            "status": document.status,
            "translation": document.translation,
        }
        if document.flags:
            record["flags"] = document.flags.split()
        if document.alternatives:
            record["nbest"] = orjson.loads(document.alternatives)
        for extra in self.extras:
            record.update((key, getattr(document, key)) for key in EXTRA_KEYS[extra])
        if document.error_code or document.error:
            record["error"] = {"code": document.error_code, "message": document.error, "line": document.line}
        own, hidden = _split_fields(document, KEYS)
        record.update(own)
        if hidden:
            record["fields"] = hidden
        return to_json(record) + b"\n"


@dataclass(frozen=True)
class Delimited:
    """CSV: quoted, and a text that a spreadsheet would take for a formula gets an apostrophe in front.
    TSV: never quoted; backslash, tab and newline are written \\\\, \\t and \\n, so a line is a document."""

    tabs: bool
    field_columns: Sequence[str]  # fields of the corpus that are columns; the rest is JSON in the column `fields`
    extras: Sequence[Extra] = ()
    nbest: bool = False
    raw: bool = False  # leave formulas alone
    to_terminal: bool = False

    @cached_property
    def columns(self) -> list[str]:
        extra_keys = [key for extra in self.extras for key in EXTRA_KEYS[extra]]
        own = [name for name in self.field_columns if name not in TABLE_KEYS]
        return [
            *("id", "status", "translation", "flags"),
            *(["nbest"] if self.nbest else []),
            *extra_keys,
            *own,
            *("error_code", "error_message", "line", "fields"),
        ]

    def head(self) -> bytes:
        return self._write(self.columns)

    def line(self, document: ExportedDocument) -> bytes:
        own, hidden = _split_fields(document, TABLE_KEYS)
        cells: dict[str, Any] = {
            "id": document.external_id,
            "status": document.status,
            "translation": document.translation,
            "flags": document.flags,
            "nbest": document.alternatives,
            "text": document.text,
            "log_prob": document.log_prob,
            "num_source_tokens": document.num_source_tokens,
            "num_target_tokens": document.num_target_tokens,
            "error_code": document.error_code,
            "error_message": document.error,
            "line": document.line,
        }
        for name in own.keys() - set(self.field_columns):
            hidden[name] = own.pop(name)
        cells |= own
        cells["fields"] = {name: hidden[name] for name in sorted(hidden)} or None
        if document.numeric_id and _JSON_NUMBER.fullmatch(document.external_id or ""):
            cells["id"] = _Number(document.external_id)
        return self._write([cells.get(name) for name in self.columns])

    def _write(self, cells: Sequence[Any]) -> bytes:
        clean = visible if self.to_terminal else str
        if self.tabs:
            return ("\t".join(_tsv_cell(cell, clean) for cell in cells) + "\n").encode()
        return csv_line([_raw_cell(cell, clean) if self.raw else csv_cell(cell, clean) for cell in cells]).encode()


def record_format(
    form: Format, *, extras: Sequence[Extra], field_columns: Sequence[str], nbest: bool, raw: bool, to_terminal: bool
) -> RecordFormat:
    """The writer of a format."""
    extras = [extra for extra in Extra if extra in extras]  # in one order, each once
    if form is Format.JSONL:
        return JsonLines(extras)
    return Delimited(form is Format.TSV, field_columns, extras, nbest, raw, to_terminal)


class _Number:
    """A number as the corpus wrote it: no text, so no spreadsheet guard."""

    def __init__(self, digits: str | None) -> None:
        self.digits = digits

    def __str__(self) -> str:
        return str(self.digits)


def _id(document: ExportedDocument) -> Any:
    """As the corpus wrote it; a number of any length stays exact."""
    if document.numeric_id and document.external_id and _JSON_NUMBER.fullmatch(document.external_id):
        return orjson.Fragment(document.external_id)
    return document.external_id


def _split_fields(document: ExportedDocument, reserved: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The other fields of the corpus' line: those that keep their names, and those whose names are ours."""
    fields: dict[str, Any] = orjson.loads(document.fields) if document.fields else {}
    if reserved.isdisjoint(fields):
        return fields, {}
    own = {name: value for name, value in fields.items() if name not in reserved}
    return own, {name: value for name, value in fields.items() if name in reserved}


def _raw_cell(value: Any, clean: Callable[[str], str]) -> Any:
    return clean(value) if isinstance(value, str) else csv_cell(value)


def _tsv_cell(value: Any, clean: Callable[[str], str]) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(csv_cell(value))
    for character, written in (("\\", r"\\"), ("\t", r"\t"), ("\n", r"\n"), ("\r", r"\r")):
        text = text.replace(character, written)
    return clean(text)
