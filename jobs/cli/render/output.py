"""The formats in which a command prints its data: a table for people, JSON, CSV, or only the ids."""

import csv
import enum
import functools
import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePath
from typing import Any, TypeVar

import click
import orjson

from jobs.cli.render.terminal import visible
from jobs.formatting import plain

Command = TypeVar("Command", bound=Callable[..., Any])
Row = Mapping[str, Any]

# What a spreadsheet takes for the start of a formula (OWASP, "CSV injection").
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")  # a negative number is not a formula

# JSON escapes U+0000 to U+001F by itself. These control a terminal too: DEL, U+0080 to U+009F, and the marks that
# reverse the direction of writing. In UTF-8.
_UNESCAPED = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xef\xbb\xbf")


class Form(enum.StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    IDS = "ids"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    key: str  # of the row
    title: str
    show: Callable[[Any], str] = plain
    right: bool = False  # align to the right: numbers
    rank: int = 0  # 0: always shown; else, on a narrow terminal, the highest rank is left out first
    is_text: bool | None = False  # a text may be shortened; an id, a name, a number never is. None: the cells decide


@dataclass(frozen=True, slots=True)
class Output:
    """The format that this call asked for."""

    form: Form = Form.TABLE
    defuse: bool = False  # CSV: put an apostrophe before texts that a spreadsheet would take for formulas

    @property
    def is_table(self) -> bool:
        return self.form is Form.TABLE

    def rows(self, rows: Iterable[Row], columns: Sequence[Column], fields: Sequence[str]) -> None:
        """Print rows: `columns` in a table, all `fields` in JSON and CSV. The first field is the id.

        JSON, CSV and ids are printed row by row; a table needs all rows first, for its widths.
        """
        if self.form is Form.JSON:
            print_json_rows({name: row[name] for name in fields} for row in rows)
        elif self.form is Form.CSV:
            self._csv_rows(rows, fields)
        elif self.form is Form.IDS:
            for row in rows:
                click.echo(visible(row[fields[0]]))
        else:
            from jobs.cli.render.layout import print_table

            print_table(rows, columns)

    def _csv_rows(self, rows: Iterable[Row], fields: Sequence[str]) -> None:
        """Unchanged UTF-8 to a pipe or a file: `click.echo` would remove what looks like terminal escapes."""
        is_terminal = sys.stdout.isatty()
        clean = visible if is_terminal else str
        sys.stdout.flush()

        def write(cells: Iterable[Any]) -> None:
            line = csv_line([csv_cell(cell, clean, defuse=self.defuse) for cell in cells])
            sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace"))

        write(fields)
        for row in rows:
            write(row[name] for name in fields)
        sys.stdout.buffer.flush()

    def record(self, values: Row, show: Callable[[], None]) -> None:
        """Print one object: as JSON, or by calling `show`."""
        if self.form is Form.JSON:
            click.echo(to_json(values, indent=True).decode())
        else:
            show()


def output_options(*, csv: bool = False, ids: bool = False) -> Callable[[Command], Command]:
    """Add the options --json, --csv and -q to a command, which receives them as one `output`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(
            *args: Any, as_json: bool, as_csv: bool = False, defuse: bool = False, only_ids: bool = False, **kw: Any
        ) -> Any:
            chosen = [
                form for form, wanted in ((Form.JSON, as_json), (Form.CSV, as_csv), (Form.IDS, only_ids)) if wanted
            ]
            if len(chosen) > 1:
                raise click.UsageError("--json, --csv and -q exclude each other: give only one.")
            if defuse and not as_csv:
                raise click.UsageError("--defuse is for CSV: give --csv too.")
            return command(*args, output=Output(next(iter(chosen), Form.TABLE), defuse), **kw)

        decorated: Any = call
        if ids:
            decorated = click.option("-q", "--quiet", "only_ids", is_flag=True, help="Print ids only.")(decorated)
        if csv:
            what = "CSV: put an apostrophe before a text that a spreadsheet would take for a formula, or not."
            decorated = click.option("--defuse/--raw", default=False, help=f"{what}  [default: raw]")(decorated)
            decorated = click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")(decorated)
        return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(decorated)  # type: ignore[no-any-return]  # Any: click

    return decorate


def print_json_rows(rows: Iterable[Any]) -> None:
    """Print a JSON list, one row a line, without waiting for the last row."""
    separator = "["
    for row in rows:
        click.echo(f"{separator}\n  " if separator == "[" else ",\n  ", nl=False)
        click.echo(to_json(row), nl=False)
        separator = ","
    click.echo("[]" if separator == "[" else "\n]")


def to_json(value: Any, *, indent: bool = False) -> bytes:
    """JSON without characters that control a terminal; NaN and infinities are null."""
    options = orjson.OPT_PASSTHROUGH_DATETIME | (orjson.OPT_INDENT_2 if indent else 0)
    text = orjson.dumps(value, _to_json_value, options)
    return _UNESCAPED.sub(_json_escape, text) if _UNESCAPED.search(text) else text


def csv_cell(value: Any, clean: Callable[[str], str] = str, *, defuse: bool = True) -> Any:
    """A value as a cell; `defuse` puts an apostrophe before a text that a spreadsheet would take for a formula."""
    if isinstance(value, str):
        text = clean(value)
        return f"'{text}" if defuse and is_formula(value) else text
    if isinstance(value, datetime):
        return _iso(value)
    if isinstance(value, (bool, orjson.Fragment, dict, list, tuple)):
        return to_json(value).decode()
    return value.hex() if isinstance(value, bytes) else value


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take this text for a formula."""
    return text.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(text)


def csv_line(cells: Sequence[Any], delimiter: str = ",") -> str:
    """A line of CSV. Cells with either kind of line break are quoted; Python quotes only its own kind."""
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def _json_escape(match: re.Match[bytes]) -> bytes:
    return f"\\u{ord(match[0].decode()):04x}".encode()


def _to_json_value(value: Any) -> Any:
    """Values of types that orjson does not know."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):  # PostgreSQL's sums
        return orjson.Fragment(str(int(value))) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return _iso(value)
    if isinstance(value, (PurePath, date)):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _iso(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
