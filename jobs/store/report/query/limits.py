"""How much memory one query may take, in the database's library and for the rows that were read; and how much time."""

import time
from collections.abc import Sequence
from typing import Any

MB = 1_000_000
LARGEST_ROW = 32 * MB  # of an answer
HELD = 4 * MB  # of rows that are read ahead of their reader
LARGEST_TABLE = 64 * MB  # on a terminal, which needs all rows at once
LARGEST_VALUE = 100 * MB  # on SQLite: of any value in a query
# What SQLite may allocate in this process, for all connections together: a query can hold thousands of values at the
# same time. Other connections have a cache of some megabytes, and the connection of a submit has one of 128.
SQLITE_MEMORY = 1_000 * MB
OF_A_NUMBER = 8  # bytes, about

ROW_TOO_LARGE = (
    f"a row of the answer is larger than {LARGEST_ROW // MB} MB; ask for fewer columns, or for a part of a text: "
    "substr(text, 1, 1000)"
)
TABLE_TOO_LARGE = (
    f"the answer is larger than {LARGEST_TABLE // MB} MB, too much for a table; ask for fewer rows or columns, or "
    "write it with --csv"
)
VALUE_TOO_LARGE = f"a value in the query is larger than {LARGEST_VALUE // MB} MB; make it smaller"
TOO_MUCH_MEMORY = f"the query takes more than {SQLITE_MEMORY // MB} MB of memory; make it smaller"


def row_bytes(row: Sequence[Any]) -> int:
    """The approximate size of a row in bytes."""
    return sum(len(cell) if isinstance(cell, str | bytes) else OF_A_NUMBER for cell in row)


class TimeLimit:
    """A stopwatch with a limit: it runs inside `with`. Other threads may read it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._spent_s = 0.0
        self._started: float | None = None

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, *_error: object) -> None:
        if self._started is not None:
            self._spent_s += time.monotonic() - self._started
        self._started = None

    @property
    def left_s(self) -> float:
        started = self._started
        running_s = 0.0 if started is None else time.monotonic() - started
        return self.seconds - self._spent_s - running_s

    def is_over(self) -> bool:
        return self.left_s < 0
