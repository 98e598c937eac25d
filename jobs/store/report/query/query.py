"""`kvjobs query`: run a SQL statement of the user, which may read and do nothing else."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.report.query import postgresql as query_postgresql
from jobs.store.report.query import sqlite as query_sqlite
from jobs.store.report.query.fetching import rows_of
from jobs.store.report.query.limits import TimeLimit, row_bytes


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query, fetched as they are read."""

    columns: tuple[str, ...]  # each name once: in `select 1, 1` the second is 1_2
    rows: Iterator[Sequence[Any]]


@contextmanager
def run_query(
    database: Database, sql: str, parameters: Mapping[str, str], timeout_s: float, *, as_superuser: bool = False
) -> Iterator[QueryResult]:
    """Run one query with its `:name` parameters; whatever it does in the database is rolled back.

    The database may spend `timeout_s` on it, the fetching of rows included; the reader's own time does not count.
    Raises SpecError for SQL that is wrong or would write, and, unless `as_superuser`, where the user of a PostgreSQL
    server may do more than read and write tables; StoreError when the time is over. A row that is too large for the
    memory is a SpecError too.
    """
    limit = TimeLimit(timeout_s)
    if database.is_sqlite:
        beginning = query_sqlite.running(database, sql, parameters, limit)
    else:
        beginning = query_postgresql.running(database, sql, parameters, limit, as_superuser=as_superuser)
    with beginning as running:
        if not running.columns:
            raise SpecError("the query gives no columns; write a SELECT with some")
        with closing(rows_of(running, limit)) as rows:
            yield QueryResult(_distinct(running.columns), rows)


def _distinct(columns: Iterable[str]) -> tuple[str, ...]:
    names: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return tuple(names)


@dataclass(frozen=True, slots=True)
class AnswerLimits:
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
