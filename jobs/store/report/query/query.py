"""`kvjobs query`: run a SQL statement of the user, which may read and do nothing else."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from jobs.errors import SpecError
from jobs.store.database import Database
from jobs.store.report.query import postgresql as query_postgresql
from jobs.store.report.query import sqlite as query_sqlite
from jobs.store.report.query.errors import translated_query_errors
from jobs.store.report.query.time_limit import TimeLimit

ROWS_PER_FETCH = 100


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
    server may do more than read and write tables; StoreError when the time is over.
    """
    limit = TimeLimit(timeout_s)
    running: AbstractContextManager[Any]
    if database.is_sqlite:
        running = query_sqlite.cursor(database, sql, parameters, limit)
    else:
        running = query_postgresql.cursor(database, sql, parameters, limit, as_superuser=as_superuser)
    with running as cursor:
        if not cursor.description:
            raise SpecError("the query gives no columns; write a SELECT with some")
        yield QueryResult(_distinct(column[0] for column in cursor.description), _fetch(cursor, limit))


def _distinct(columns: Iterable[str]) -> tuple[str, ...]:
    names: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return tuple(names)


def _fetch(cursor: Any, limit: TimeLimit) -> Iterator[Sequence[Any]]:
    while True:
        with translated_query_errors(limit), limit:
            rows = cursor.fetchmany(ROWS_PER_FETCH)
        if not rows:
            return
        yield from rows
