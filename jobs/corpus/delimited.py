"""Comma- and tab-separated values, with a header or named columns: RFC 4180, quoted as Excel, pandas and csv.writer do.

A quote opens a quoted cell only at the start of the cell; elsewhere it is an ordinary character. The content of a
quoted cell (line ends, delimiters, doubled quotes) is kept. Both formats are quoted in the same way.
"""

import csv
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader
from typing import Any

from jobs.corpus.encodings import encoding_question
from jobs.corpus.guess import guess_by_header
from jobs.corpus.lines import bad_utf8, numbered_lines, too_long
from jobs.corpus.payload import TakePayload, take_text
from jobs.documents import Record, Reject, Rejected, check_record, listed, quoted, reject, repeated
from jobs.errors import CorpusError


def read_delimited(
    stream: BufferedReader,
    delimiter: str,
    id_field: str,
    text_fields: Mapping[str, str],
    max_line_bytes: int,
    take: TakePayload | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[Record]:
    """A document per row; blank lines are skipped. The id is always a text, or the number of the row's first line.
    `text_fields`: the columns of the payload by role (text; or source and target, with a `take` that combines them).
    `columns`: their names, of a table without a header.

    A row that does not end (a quote that never closes) rejects its first line only: reading continues with the second.
    Raises CorpusError for a header without the columns that are needed.
    """
    # csv's limit for a cell, 131,072 characters, is one setting for the whole process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), max_line_bytes))
    lines = _TextLines(stream, max_line_bytes)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    names = _read_header(lines, rows, id_field, text_fields, delimiter) if columns is None else list(columns)
    text_field = next(iter(text_fields.values()))
    take = take or take_text(text_field)
    id_at = names.index(id_field) if id_field in names else None
    others = [(index, name) for index, name in enumerate(names) if index != id_at]

    position = 0
    while True:
        lines.start_row()
        try:
            cells = next(rows)
        except StopIteration:
            return
        except (csv.Error, _TooLongError) as error:
            yield _unfinished(position, lines, error, max_line_bytes)
            lines.give_back()
            position += 1
            continue
        if not cells:
            continue
        if columns is not None and cells == names and not position:
            raise CorpusError("its first line has the names of --columns, so it is a header; leave --columns out")
        number = lines.first_number
        if lines.bad_utf8:
            yield bad_utf8(position, number, *lines.bad_utf8)
        elif len(cells) != len(names):
            named = "the header" if columns is None else "--columns"
            reason = (
                f"the row has {len(cells)} cells and {named} {len(names)}; put a cell that holds the delimiter or "
                "a line end in quotes"
            )
            yield reject(position, number, Reject.BAD_ROW, reason)
        else:
            raw_id = None if id_at is None else cells[id_at]
            fields: dict[str, Any] = {name: cells[index] for index, name in others}
            yield check_record(position, number, raw_id, take(fields), fields, text_field)
        position += 1


def _read_header(
    lines: "_TextLines", rows: Iterator[list[str]], id_field: str, text_fields: Mapping[str, str], delimiter: str
) -> list[str]:
    try:
        names = next((cells for cells in rows if cells), [])
    except (csv.Error, _TooLongError) as error:
        what = "it is too long" if isinstance(error, _TooLongError) else _in_words(error)
        raise CorpusError(f"the first line is not a header: {what}") from None
    if lines.bad_utf8:
        _, bad = lines.bad_utf8
        raise CorpusError(f"the header is not UTF-8; {encoding_question(bad.object)}")
    if not names:
        return [*text_fields.values()]  # an empty file
    columns = listed(names, 8)
    for role, field in text_fields.items():
        if field not in names:
            hint = guess_by_header(names, text_fields.values(), delimiter) or f"name it with --{role}-field"
            raise CorpusError(f"the header has no column {quoted(field)} (it has {columns}); {hint}")
    if id_field != "id" and id_field not in names:
        raise CorpusError(f"the header has no column {quoted(id_field)} (it has {columns}); name it with --id-field")
    if twice := repeated(names):
        raise CorpusError(f"the header has two columns {quoted(twice, 30)}; rename one")
    return names


def _unfinished(position: int, lines: "_TextLines", error: Exception, max_line_bytes: int) -> Rejected:
    if isinstance(error, _TooLongError):
        if lines.num_taken == 1:
            return too_long(position, lines.first_number, max_line_bytes)
        what = f"a quoted cell opens here and does not close within {max_line_bytes:,} bytes"
    else:
        what = f"the row cannot be read ({_in_words(error)})"
    reason = f"{what}; close each quoted cell, and double the quotes that belong to its text"
    return reject(position, lines.first_number, Reject.BAD_ROW, reason)


def _in_words(error: Exception) -> str:
    """The error of the csv module for a user: its own text mentions open() calls and contains unescaped tabs."""
    text = str(error)
    if "new-line character" in text:
        return "there is a carriage return in a cell without quotes"
    return text.replace("\t", "\\t")


class _TooLongError(Exception):
    """A row of the table is longer than the limit on its bytes."""


class _TextLines:
    """The lines of a file as text for `csv.reader`, which takes as many as a row needs. `give_back` returns them."""

    def __init__(self, stream: BufferedReader, max_bytes: int) -> None:
        self._source = numbered_lines(stream, max_bytes)
        self._waiting: deque[tuple[int, bytes | None]] = deque()
        self._taken: list[tuple[int, bytes | None]] = []
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self.bad_utf8: tuple[int, UnicodeDecodeError] | None = None  # in this row: line number and error

    def __iter__(self) -> "_TextLines":
        return self

    def __next__(self) -> str:
        number, line = taken = self._waiting.popleft() if self._waiting else next(self._source)
        self._taken.append(taken)
        self._num_bytes += len(line or b"")
        if line is None or self._num_bytes > self._max_bytes + 2:
            raise _TooLongError
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            self.bad_utf8 = self.bad_utf8 or (number, error)
            return line.decode("utf-8", "replace")

    @property
    def first_number(self) -> int:
        return self._taken[0][0]

    @property
    def num_taken(self) -> int:
        return len(self._taken)

    def start_row(self) -> None:
        self._taken.clear()
        self._num_bytes = 0
        self.bad_utf8 = None

    def give_back(self) -> None:
        """Return all lines of this row but the first, to be read again."""
        self._waiting.extendleft(reversed(self._taken[1:]))
