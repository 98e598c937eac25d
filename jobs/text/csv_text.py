"""Values as CSV: lines that any reader takes apart again, and texts that no spreadsheet takes for formulas."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import orjson

from jobs.text.json_text import iso, to_json

# What a spreadsheet takes for the start of a formula: a sign, also a full-width or small one, or a tab or line break,
# which it drops (OWASP, "CSV injection"). Blanks and what cannot be seen, such as a byte order mark, may come before.
_FORMULA = re.compile(
    r"[\t\r\n]|[\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]*"
    r"[=+\-@＝＋－＠﹦﹢﹣﹫]"
)
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")  # a negative number is not a formula


def csv_cell(value: Any, clean: Callable[[str], str] = str, *, defuse: bool = True) -> Any:
    """A value as a cell; `defuse` puts an apostrophe before a text that a spreadsheet would take for a formula."""
    if isinstance(value, str):
        text = clean(value)
        return f"'{text}" if defuse and is_formula(value) else text
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, (bool, orjson.Fragment, dict, list, tuple)):
        return to_json(value).decode()
    return value.hex() if isinstance(value, bytes) else value


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take this text for a formula."""
    return _FORMULA.match(text) is not None and not NUMBER.fullmatch(text)


def csv_line(cells: Sequence[Any], delimiter: str = ",") -> str:
    """A line of CSV. Cells with either kind of line break are quoted; Python quotes only its own kind."""
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue().removesuffix("\r\n") + "\n"
