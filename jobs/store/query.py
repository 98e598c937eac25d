"""What people ask in SQL: a whole statement, read-only."""

import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, StatementError

from jobs.errors import SpecError, StoreError
from jobs.store.database import Database
from jobs.store.engines import add_mathematics

ROWS_A_FETCH = 100
STEPS_BETWEEN_LOOKS = 10_000  # of SQLite's machine, between two looks at the clock: about a millisecond
LARGEST_VALUE = 100_000_000  # bytes that one value may grow to, lest a query eat the memory

# All that a query may do in SQLite; writing, ATTACH, PRAGMA and transactions are not in it.
ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
FORBIDDEN_FUNCTIONS = {"load_extension"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query, as they come."""

    columns: tuple[str, ...]
    rows: Iterator[Sequence[Any]]


@contextmanager
def ask(database: Database, sql: str, parameters: Mapping[str, str], timeout_s: float) -> Iterator[Answer]:
    """Run one read-only query with its `:name` parameters. Raises SpecError for SQL that is wrong or would write,
    StoreError once the database has worked on it for longer than the timeout."""
    for name in parameters:
        if not re.search(rf":{re.escape(name)}\b", sql):
            raise SpecError(f"the query has no parameter :{name}")
    run = _ask_sqlite if database.is_sqlite else _ask_postgresql
    with run(database, sql, parameters, timeout_s) as answer:
        yield answer


@contextmanager
def _ask_sqlite(database: Database, sql: str, parameters: Mapping[str, str], timeout_s: float) -> Iterator[Answer]:
    watch = _StopWatch(timeout_s)
    file = Path(str(database.engine.url.database)).absolute()
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
        add_mathematics(connection)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(watch.is_over, STEPS_BETWEEN_LOOKS)
        with _explained(watch):
            with watch:
                cursor = connection.execute(sql, {name: _number_or_text(value) for name, value in parameters.items()})
            if cursor.description is None:
                raise SpecError("the query gives no rows; write a SELECT")
            yield Answer(tuple(column[0] for column in cursor.description), _fetch(cursor, watch))


@contextmanager
def _ask_postgresql(database: Database, sql: str, parameters: Mapping[str, str], timeout_s: float) -> Iterator[Answer]:
    # One statement cannot leave the read-only transaction; two could (COMMIT; DELETE ...).
    if ";" in sql.strip().rstrip(";") or not re.match(r"\s*(select|with|values|table|explain)\b", sql, re.IGNORECASE):
        raise SpecError("write one SELECT without a semicolon; give texts that hold one as parameters: -p name value")
    watch = _StopWatch(timeout_s)
    with database.engine.connect() as connection, connection.begin(), _explained(watch):
        connection.execute(text("SET TRANSACTION READ ONLY"))
        connection.execute(text(f"SET LOCAL statement_timeout = {max(1, int(timeout_s * 1000))}"))
        streamed = connection.execution_options(stream_results=True, max_row_buffer=ROWS_A_FETCH)
        with watch:
            result = streamed.execute(text(sql.strip().rstrip(";")), dict(parameters))
        with closing(result):  # not every reader wants all rows
            if not result.keys():  # `SELECT` alone is a sentence there
                raise SpecError("the query gives no columns; write a SELECT with some")
            yield Answer(tuple(result.keys()), _fetch(result, watch))


class _StopWatch:
    """Runs while the database works, stands while the reader of the rows does."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._spent_s = 0.0
        self._started: float | None = None

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, *_error: object) -> None:
        if self._started is not None:
            self._spent_s += time.monotonic() - self._started
        self._started = None

    def is_over(self) -> bool:
        running = 0.0 if self._started is None else time.monotonic() - self._started
        return self._spent_s + running > self.limit_s


def _fetch(cursor: Any, watch: _StopWatch) -> Iterator[Sequence[Any]]:
    while True:
        with _explained(watch), watch:
            rows = cursor.fetchmany(ROWS_A_FETCH)
        if not rows:
            return
        yield from rows


def _authorize(action: int, first: str | None, second: str | None, _schema: str | None, _trigger: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and second in FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY


@contextmanager
def _explained(watch: _StopWatch) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, DBAPIError, StatementError) as error:
        said = str(error.orig if isinstance(error, StatementError) and error.orig else error).strip().split("\n")[0]
        if said == "interrupted" or "statement timeout" in said:
            raise StoreError(
                f"the query was stopped after {watch.limit_s:g} seconds; narrow it down, or allow more with --timeout"
            ) from None
        if "prohibited" in said or "not authorized" in said or "readonly" in said or "read-only" in said:
            raise SpecError(f"a query may only read, and this one would do something else ({said})") from None
        raise SpecError(f"the query cannot be answered: {said}") from None


def _number_or_text(value: str) -> int | float | str:
    """SQLite compares 5 with '5' as unequal where no column says what is meant; a text like 007 stays one."""
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", value):
        return int(value)
    return float(value) if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", value) else value
