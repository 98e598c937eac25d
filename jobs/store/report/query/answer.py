"""The answer to a user's query as a whole, for a page: so many rows, and so many bytes, at most."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jobs.store.database import Database
from jobs.store.report.query.query import run_query
from jobs.store.report.query.size_limits import row_bytes


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """How much of an answer is read."""

    rows: int
    seconds: float  # that the database may spend
    num_bytes: int  # of all its texts together


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query, and whether there are more."""

    columns: tuple[str, ...]
    rows: list[Sequence[Any]]
    is_cut: bool
    seconds: float


def answer(database: Database, sql: str, parameters: Mapping[str, str], limits: AnswerLimits) -> Answer:
    """Run a query (`run_query` says what it raises) and read its rows up to the limits."""
    started = time.monotonic()
    with run_query(database, sql, parameters, limits.seconds) as found:
        rows: list[Sequence[Any]] = []
        num_bytes = 0
        for row in islice(found.rows, limits.rows):
            rows.append(row)
            num_bytes += row_bytes(row)
            if num_bytes > limits.num_bytes:
                break
        is_cut = next(found.rows, None) is not None
    return Answer(found.columns, rows, is_cut, time.monotonic() - started)
