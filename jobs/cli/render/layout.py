"""Tables and pages in the width of the terminal.

An id, a name or a number is never cut, since a part of it would mislead. If a table is too wide, its texts are
shortened, then columns are left out in the order of their rank, and a message names them; if that is not enough, each
row becomes a block of lines. In a file or a pipe nothing is shortened or left out.
"""

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.cells import cell_len

from jobs.cli.render.messages import print_message
from jobs.text.formatting import visible

if TYPE_CHECKING:
    from jobs.cli.render.output import Column

GAP = "  "
LONGEST_NAME = 40  # a longer cell of several words is taken for a text, unless the column says otherwise
SHORTEST_TEXT = 20  # a text in a table is not shortened further
LONGEST_TEXT = 20  # lines of a text in a block; the rest is left out
NARROWEST = 20  # columns; a narrower value is not folded, since it reads better as one line
_COMMAND = re.compile(r"(Next:)?\s+kvjobs ")
_LABEL = re.compile(r"\s*\S+\s{2,}|\s*")  # of a line of a page; its continuation lines are indented by its width


@dataclass(frozen=True, slots=True)
class FittedTable:
    """The lines of a table or of blocks, and what is missing from them."""

    lines: Sequence[str]
    left_out: Sequence[str] = ()  # titles of columns
    shortened: bool = False  # texts


def print_table(rows: Iterable[Mapping[str, Any]], columns: "Sequence[Column]") -> None:
    """Print rows as a table; on a terminal `fit_table` fits it into the width."""
    cells = [[visible(column.show(row[column.key])) for column in columns] for row in rows]
    if not sys.stdout.isatty():
        for line in _table(cells, columns, _widths(cells, columns), rule=False):
            click.echo(line)
        return
    width = shutil.get_terminal_size().columns
    fitted = fit_table(cells, columns, width)
    for line in fitted.lines:
        click.echo(line)
    missing = [f"Left out: {', '.join(fitted.left_out)}."] if fitted.left_out else []
    missing += ["Texts are shortened."] if fitted.shortened else []
    if missing:
        print_message("\n".join(_fold(f"{' '.join(missing)} A wider terminal or --json shows all.", width)))


def print_page(lines: Iterable[str], *, indent: int | None = None) -> None:
    """Print lines of a page (`  label   value`).

    On a terminal, long lines are folded; continuation lines start at `indent`, or else below the value.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in map(visible, lines):
        for part in _fold_line(line, width, indent) if width else [line]:
            click.echo(part)


def fit_table(cells: Sequence[Sequence[str]], columns: "Sequence[Column]", width: int) -> FittedTable:
    """A table that is at most `width` columns wide, or else a block for each row."""
    natural, texts = _widths(cells, columns), _texts(cells, columns)

    def narrowed(shown: Sequence[int]) -> list[int] | None:
        return _narrowed([natural[i] for i in shown], [texts[i] for i in shown], width)

    shown = [i for i, column in enumerate(columns) if column.rank == 0]
    if narrowed(shown) is None:
        return _blocks(cells, columns, texts, width)
    for i in sorted(set(range(len(columns))) - set(shown), key=lambda i: (columns[i].rank, i)):
        if narrowed(more := sorted([*shown, i])) is not None:
            shown = more
    widths = narrowed(shown) or []
    return FittedTable(
        list(_table([[row[i] for i in shown] for row in cells], [columns[i] for i in shown], widths)),
        left_out=[column.title for i, column in enumerate(columns) if i not in shown],
        shortened=widths != [natural[i] for i in shown],
    )


def _widths(cells: Sequence[Sequence[str]], columns: "Sequence[Column]") -> list[int]:
    return [max(cell_len(column.title), *(cell_len(row[i]) for row in cells), 0) for i, column in enumerate(columns)]


def _texts(cells: Sequence[Sequence[str]], columns: "Sequence[Column]") -> list[bool]:
    """For each column, whether it holds texts, which may be shortened."""
    return [
        any(_reads_as_text(row[i]) for row in cells) if column.is_text is None else column.is_text
        for i, column in enumerate(columns)
    ]


def _reads_as_text(cell: str) -> bool:
    """Whether a cell is long and has several words, or a script without spaces."""
    return cell_len(cell) > LONGEST_NAME and (" " in cell or cell_len(cell) > len(cell))


def _narrowed(widths: list[int], is_text: Sequence[bool], width: int) -> list[int] | None:
    """The widths, with texts narrowed as needed; None if the table does not fit even so."""
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while excess > 0:
        wide = [i for i, is_one in enumerate(is_text) if is_one and widths[i] > SHORTEST_TEXT]
        if not wide:
            return None
        widest = max(wide, key=lambda i: widths[i])
        others = [widths[i] for i in wide if widths[i] < widths[widest]]
        by = min(excess, widths[widest] - max([SHORTEST_TEXT, *others]))
        widths[widest] -= by or 1  # several have this width: narrow them in turns
        excess -= by or 1
    return widths


def _table(
    cells: Sequence[Sequence[str]], columns: "Sequence[Column]", widths: Sequence[int], *, rule: bool = True
) -> Iterator[str]:
    heads = [[column.title for column in columns], *([["-" * width for width in widths]] if rule else [])]
    for row in (*heads, *cells):
        placed = zip(row, widths, columns, strict=True)
        yield GAP.join(_padded(_shortened(cell, to), to, right=column.right) for cell, to, column in placed).rstrip()


def _blocks(
    cells: Sequence[Sequence[str]], columns: "Sequence[Column]", texts: Sequence[bool], width: int
) -> FittedTable:
    label = max(cell_len(column.title) for column in columns) + len(GAP)
    lines: list[str] = []
    shortened = False
    for row in cells:
        if lines:
            lines.append("")
        for column, is_text, cell in zip(columns, texts, row, strict=True):
            parts = _fold(cell, width - label)
            if is_text and len(parts) > LONGEST_TEXT:
                parts, shortened = [*parts[: LONGEST_TEXT - 1], f"{parts[LONGEST_TEXT - 1]}…"], True
            heads = [_padded(column.title, label), *[" " * label] * (len(parts) - 1)]
            lines.extend((head + part).rstrip() for head, part in zip(heads, parts, strict=True))
    return FittedTable(lines, shortened=shortened)


def _fold_line(line: str, width: int, indent: int | None) -> list[str]:
    if _COMMAND.match(line):
        return [line]  # the terminal wraps it, and it is copied as one line
    label = _LABEL.match(line)
    if indent is None:
        indent = len(label[0]) if label else 0
    if indent > width - NARROWEST:
        first, *more = _fold(line, width - len(GAP))
        return [first, *(GAP + part for part in more)]
    first, *more = _fold(line[indent:], width - indent)
    return [line[:indent] + first, *(" " * indent + part for part in more)]


def _fold(text: str, width: int) -> list[str]:
    """A text as lines, broken at spaces, and between the characters of a script without them. Another word longer than
    a line is not broken: the terminal wraps it."""
    if cell_len(text) <= width or width < NARROWEST:
        return [text]
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(word) > width and cell_len(word) > len(word):
            lines[-1:] = _cut(joined, width)
        elif cell_len(joined) <= width or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _cut(text: str, width: int) -> list[str]:
    """A text cut into lines of the width, between any two characters."""
    lines = [""]
    for character in text:
        if cell_len(lines[-1] + character) > width:
            lines.append("")
        lines[-1] += character
    return lines


def _shortened(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    kept = ""
    for character in text:
        if cell_len(kept + character) > width - 1:
            break
        kept += character
    return f"{kept}…"


def _padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
