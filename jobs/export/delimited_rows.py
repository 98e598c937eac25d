"""Rows of CSV and TSV, and the id of a document as a cell of one.

    CSV   quoted
    TSV   never quoted; backslash, tab and newline are written \\\\, \\t and \\n, so a line is a row

Knows: cells. Does not know: results, columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.text.csv_text import csv_cell, csv_line
from jobs.text.formatting import visible
from jobs.text.json_numbers import is_number

if TYPE_CHECKING:
    from jobs.store.report.documents.export import ExportedDocument


@dataclass(frozen=True, slots=True)
class DelimitedRows:
    """How cells become the bytes of a row."""

    tabs: bool  # TSV
    defuse: bool = True  # an apostrophe before a text that a spreadsheet would take for a formula
    delimiter: str = ","  # of CSV
    to_terminal: bool = False

    def row(self, cells: Sequence[Any]) -> bytes:
        """The bytes of a row, with the end of its line."""
        clean = visible if self.to_terminal else str
        if self.tabs:
            return ("\t".join(_tsv_cell(cell, clean, self.defuse) for cell in cells) + "\n").encode()
        return csv_line([csv_cell(cell, clean, defuse=self.defuse) for cell in cells], self.delimiter).encode()


def id_cell(document: "ExportedDocument") -> Any:
    """The id as written in the corpus."""
    written = document.external_id
    return _Number(written) if document.numeric_id and written and is_number(written) else written


class _Number:
    """A number as written in the corpus: not a text, so it never gets an apostrophe."""

    def __init__(self, digits: str) -> None:
        self.digits = digits

    def __str__(self) -> str:
        return self.digits


def _tsv_cell(value: Any, clean: Callable[[str], str], defuse: bool) -> str:
    if value is None:
        return ""
    text = str(csv_cell(value, defuse=defuse))
    for character, written in (("\\", r"\\"), ("\t", r"\t"), ("\n", r"\n"), ("\r", r"\r")):
        text = text.replace(character, written)
    return clean(text)
