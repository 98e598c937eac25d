"""The answer to a query as a page shows it: which columns are numbers, what of a long text is folded, a chart.

Knows: values. Does not know: SQL, HTML.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from jobs.store.report.query.query import Answer
from jobs.text.formatting import NOTHING, counted, plain, visible
from jobs.text.json_text import iso, to_json
from jobs.web.charts import Chart, Series
from jobs.web.document_view.document_address import can_stand_in_path, document_address

FOLDED = 140  # characters of a text that are shown; the others on a click
LONGEST = 20_000  # characters of a text that the page holds
SHORT = 24  # characters that are never broken into lines
MOST_POINTS = 2000
MOST_BARS = 60

# A time of SQLite: UTC, `YYYY-MM-DD HH:MM`, with or without seconds.
_SQLITE_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d(\.\d+)?)?")
_IDS = re.compile(r"(^|_)(id|line|position|epoch|pid|lane)$")


@dataclass(frozen=True, slots=True)
class Cell:
    text: str  # one line, without characters that could hide
    rest: str = ""  # of a long text: what is folded
    left_out: int = 0  # characters of it that are not in the page
    is_null: bool = False
    href: str = ""

    @property
    def is_short(self) -> bool:
        """Whether the cell is so short that it is never broken into lines."""
        return len(self.text) <= SHORT


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """One column: its name, and what its values are."""

    name: str
    is_number: bool
    is_time: bool

    @property
    def is_id(self) -> bool:
        """Whether its numbers only identify: no chart has them as heights."""
        return _IDS.search(self.name) is not None


def columns_of(answer: Answer) -> list[AnswerColumn]:
    """The columns of an answer, their types told from their values."""
    found = []
    for index, name in enumerate(answer.columns):
        values = [row[index] for row in answer.rows if row[index] is not None]
        is_number = bool(values) and all(_is_number(value) for value in values)
        found.append(AnswerColumn(name, is_number, bool(values) and all(_is_time(value) for value in values)))
    return found


def cells_of(answer: Answer) -> list[list[Cell]]:
    """Every value as text. The number of a job is a link to it; beside it, the id of a document too."""
    return [_cells(dict(zip(answer.columns, row, strict=True))) for row in answer.rows]


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    job_id = row.get("job_id")
    if type(job_id) is not int:
        return [_cell(value) for value in row.values()]
    links = {"job_id": f"/jobs/{job_id}"}
    if isinstance(document := row.get("id"), str) and can_stand_in_path(document):
        links["id"] = document_address(job_id, 0, document, {})
    return [replace(_cell(value), href=links.get(name, "")) for name, value in row.items()]


def chart_of(answer: Answer, columns: Sequence[AnswerColumn], x: str = "", y: str = "") -> Chart | None:
    """The numbers of column `y` over column `x`. Unless they are named: where exactly one column has numbers that are
    not ids, over the first other column. None where no chart says anything."""
    heights = [column for column in columns if column.is_number and not column.is_id]
    height = next((column for column in columns if column.name == y and column.is_number), None)
    if height is None and not y and len(heights) == 1:
        height = heights[0]
    others = [column for column in columns if column is not height]
    base = next((column for column in others if column.name == x), None)
    if base is None and not x:
        base = next((column for column in others if column.is_time or not column.is_number), None)
    if height is None or base is None or len(answer.rows) < 2:
        return None
    return _chart(answer, base, height)


def _chart(answer: Answer, base: AnswerColumn, height: AnswerColumn) -> Chart:
    names = list(answer.columns)
    at, over = names.index(base.name), names.index(height.name)
    points = [
        (row[at], float(row[over]))
        for row in answer.rows
        if row[at] is not None and row[over] is not None and math.isfinite(row[over])
    ]
    found = len(points)
    is_ordered = base.is_time or base.is_number
    points = sorted(points)[:MOST_POINTS] if is_ordered else points[:MOST_BARS]
    is_line = is_ordered and not base.is_id
    return Chart(
        id="answer-chart",
        title=f"{height.name} by {base.name}",
        sentence=_sentence(points, found, base.name, height.name, is_line=is_line),
        shape="line" if is_line else "bar",
        x_name=base.name,
        y_name=height.name,
        x=[_label(x, base) for x, _ in points],
        series=[Series(height.name, [value for _, value in points], "--series-1")],
        is_time=base.is_time,
    )


def _sentence(points: Sequence[tuple[Any, float]], found: int, base: str, height: str, *, is_line: bool) -> str:
    if not points:
        return "No row has both values."
    most = max(points, key=lambda point: point[1])
    least = min(points, key=lambda point: point[1])
    shown = f"The first {len(points):,} of {found:,} points. " if len(points) < found else ""
    if most[1] == least[1]:
        return f"{shown}{height} is {plain(most[1])} at all {counted(len(points), 'point')}."
    first, last = points[0], points[-1]
    course = (
        f"{plain(first[1])} at {base} {_name(first[0])} and {plain(last[1])} at {_name(last[0])}; " if is_line else ""
    )
    extremes = (
        f"highest at {base} {_name(most[0])} ({plain(most[1])}) and lowest at {_name(least[0])} ({plain(least[1])})"
    )
    return f"{shown}{height} is {course}{extremes}; {counted(len(points), 'point')}."


def _label(value: Any, column: AnswerColumn) -> Any:
    if column.is_time:
        return iso(value) if isinstance(value, datetime) else f"{str(value).replace(' ', 'T')}Z"
    return float(value) if isinstance(value, Decimal) else value if column.is_number else _name(value)


def _name(value: Any) -> str:
    text = visible(plain(value))
    return text if len(text) <= 40 else f"{text[:39]}…"


def _cell(value: Any) -> Cell:
    if value is None:
        return Cell(NOTHING, is_null=True)
    if _is_number(value):
        shown = plain(float(value)) if isinstance(value, Decimal) and not _is_whole(value) else plain(value)
        return Cell(shown)
    text = visible(_text(value))
    if len(text) <= FOLDED:
        return Cell(text)
    return Cell(text[:FOLDED], text[FOLDED:LONGEST], max(0, len(text) - LONGEST))


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict | list | tuple):
        return to_json(value).decode()
    return plain(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_whole(value: Decimal) -> bool:
    return value.is_finite() and value == value.to_integral_value()


def _is_time(value: Any) -> bool:
    if isinstance(value, str):
        return _SQLITE_TIME.fullmatch(value) is not None
    return isinstance(value, datetime | date)
