"""The lines of a corpus with values added at their ends; the rest of each line stays the same, byte for byte.

    jsonl      {"id": 7, "text": "one"}      ->  {"id": 7, "text": "one", "perplexity": 12.5}
    csv, tsv   7,"one"                       ->  7,"one",12.5
    txt        one                           ->  one<tab>12.5

Knows: the formats. Does not know: results, tables.
"""

import csv
import io
import json
from collections.abc import Sequence

from jobs.corpus.corpus import Format
from jobs.corpus.original import CorpusLayout, Lines, StoredLine
from jobs.errors import SpecError


class AddedLines:
    """Lines of a corpus, each with values for `names` added."""

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
        if self._layout.format is Format.JSONL:
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
