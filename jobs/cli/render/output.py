"""The formats in which a command prints its data: a table for people, JSON, CSV, or only the ids."""

import enum
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from jobs.text.csv_text import csv_cell, csv_line
from jobs.text.formatting import plain, visible
from jobs.text.json_text import to_json

Command = TypeVar("Command", bound=Callable[..., Any])
Row = Mapping[str, Any]


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

    @property
    def is_json(self) -> bool:
        return self.form is Form.JSON

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
