"""INSERT statements that SQLite and PostgreSQL spell differently.

Those with many rows are written by hand and kept: building and looking up the same statement in SQLAlchemy took a third
of the time of recording a batch. On SQLite they are sent with `executemany`. On PostgreSQL each column is sent as one
array: a statement with a parameter for each value is parsed by psycopg at every call, 40 ms for 250 rows of 14 values.
The arrays are binary (`%b`): psycopg writes them in 40 % of the time of texts, in which it escapes each quote.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, CursorResult, Dialect, Text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

Names = tuple[str, ...]
Rows = Sequence[Mapping[str, Any]]  # by name of column, at least two, the same for each
Addition = tuple[Any, Rows]  # a table, and rows of it
Converter = Callable[[Any], Any] | None

SQLITE: Dialect = sqlite.dialect()
POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # its class has no annotations
OR_IGNORE = "ON CONFLICT DO NOTHING"


def insert_or_ignore(connection: Connection, table: Any) -> Any:
    """INSERT ... ON CONFLICT DO NOTHING: the first writer wins."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return insert(table).on_conflict_do_nothing()


def insert_rows(connection: Connection, table: Any, rows: Rows, **same: Any) -> None:
    """Insert many rows, each with the values `same` besides; a row whose key exists stays as it is."""
    _run(connection, table, rows, same, OR_IGNORE)


def insert_results(connection: Connection, table: Any, rows: Rows, **same: Any) -> set[int]:
    """Insert results of one job, each with the values `same` besides; returns the positions of the rows that were
    really inserted: a row that exists stays as it is.

    Nobody else may write results of these positions meanwhile, as who records has locked their shard. So they are
    looked up first: SQLite's RETURNING would need a statement for each row, and PostgreSQL's COPY has no ON CONFLICT.
    (82 translations took 0.81 ms of the server by COPY and 1.28 by INSERT, 513 and 636 bytes of its log each.)
    """
    if not rows:
        return set()
    is_sqlite = connection.dialect.name == "sqlite"
    positions = [row["position"] for row in rows]
    where = "job_id = ? AND position BETWEEN ? AND ?"
    taken = connection.exec_driver_sql(
        f"SELECT position FROM {table.__tablename__} WHERE {where if is_sqlite else where.replace('?', '%s')}",
        (rows[0]["job_id"], min(positions), max(positions)),
    )
    present = set(taken.scalars())
    rows = [row for row in rows if row["position"] not in present]
    if rows and not is_sqlite:
        names = tuple(rows[0])
        values = ((*row, *same.values()) for row in map(itemgetter(*names), rows))
        copy_rows(connection, table.__tablename__, (*names, *same), values)
    else:
        _run(connection, table, rows, same, OR_IGNORE)
    return {row["position"] for row in rows}


def rows_of_keys(connection: Connection, table: Any, keys: Sequence[bytes]) -> CursorResult[Any]:
    """The rows of a table with these values of its column `key`. On PostgreSQL they are one parameter: psycopg parses a
    statement with a parameter for each at every call."""
    if connection.dialect.name != "sqlite":
        return connection.exec_driver_sql(f"{_selection(table)} = ANY(%b)", ([*keys],))
    return connection.exec_driver_sql(f"{_selection(table)} IN ({', '.join('?' * len(keys))})", tuple(keys))


def copy_rows(connection: Connection, table: str, names: Names, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows into a table of PostgreSQL by COPY. Raises the driver's errors as SQLAlchemy would."""
    statement = f"COPY {table} ({', '.join(names)}) FROM STDIN"
    errors = connection.dialect.loaded_dbapi
    try:
        with closing(connection.connection.cursor()) as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except errors.Error as error:
        lost = connection.dialect.is_disconnect(error, None, None)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            statement, None, error, errors.Error, connection_invalidated=lost, dialect=connection.dialect
        ) from error


def add_to_rows(connection: Connection, *additions: Addition) -> None:
    """Add the values of each row to the row of its table with the same key, or insert the row where there is
    none; texts stay as they are. No two rows of a table have the same key. A table without a natural key gets a new
    row for each.

    On PostgreSQL it is one statement for all tables, which may add to them in any order.
    """
    additions = tuple((table, rows) for table, rows in additions if rows)
    if connection.dialect.name == "sqlite":
        for table, rows in additions:
            _run(connection, table, rows, {}, _adding(table, tuple(rows[0])))
    elif additions:
        values: list[Any] = []
        parts = []
        for number, (table, rows) in enumerate(additions):
            names = tuple(rows[0])
            parts.append(f"added_{number} AS ({_on_postgresql(table, names, (), _adding(table, names))})")
            values += _arrays(rows, names)
        connection.exec_driver_sql(f"WITH {', '.join(parts)} SELECT 1", tuple(values))


def _run(connection: Connection, table: Any, rows: Rows, same: Mapping[str, Any], on_conflict: str) -> Any:
    if not rows:
        return None
    names = tuple(rows[0])
    if connection.dialect.name != "sqlite":
        statement = _on_postgresql(table, names, tuple(same), on_conflict)
        return connection.exec_driver_sql(statement, (*same.values(), *_arrays(rows, names)))
    tail = [
        value if to is None else to(value)
        for to, value in zip(_converters(table, tuple(same)), same.values(), strict=True)
    ]
    values = [[*row, *tail] for row in map(itemgetter(*names), rows)]
    for index, to in enumerate(_converters(table, names)):
        if to is not None:
            for row in values:
                row[index] = to(row[index])
    return connection.exec_driver_sql(_on_sqlite(table, (*names, *same), on_conflict), [*map(tuple, values)])


def _arrays(rows: Rows, names: Names) -> list[list[Any]]:
    return [[row[name] for row in rows] for name in names]


@cache
def _selection(table: Any) -> str:
    columns = ", ".join(column.name for column in table.__table__.columns)
    return f"SELECT {columns} FROM {table.__tablename__} WHERE key"


@cache
def _adding(table: Any, names: Names) -> str:
    key = [column.name for column in table.__table__.primary_key]
    if not set(key) <= set(names):
        return ""
    texts = {column.name for column in table.__table__.columns if isinstance(column.type, Text)}
    added = (name for name in names if name not in key and name not in texts)
    sums = (f"{name} = {table.__tablename__}.{name} + excluded.{name}" for name in added)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(sums)}"


@cache
def _on_sqlite(table: Any, names: Names, on_conflict: str) -> str:
    placeholders = ", ".join("?" * len(names))
    return f"INSERT INTO {table.__tablename__} ({', '.join(names)}) VALUES ({placeholders}) {on_conflict}"


@cache
def _on_postgresql(table: Any, names: Names, same: Names, on_conflict: str) -> str:
    types = {name: table.__table__.c[name].type.compile(POSTGRESQL) for name in (*names, *same)}
    arrays = ", ".join(f"%b::{types[name]}[]" for name in names)
    values = "".join(f"%s::{types[name]}, " for name in same)
    return (
        f"INSERT INTO {table.__tablename__} ({', '.join((*same, *names))}) "
        f"SELECT {values}new_rows.* FROM unnest({arrays}) AS new_rows {on_conflict}"
    )


@cache
def _converters(table: Any, names: Names) -> tuple[Converter, ...]:
    """What SQLite's driver needs before a value of each column; None where it takes it as it is."""
    types = [table.__table__.c[name].type.dialect_impl(SQLITE) for name in names]
    return tuple(type_.bind_processor(SQLITE) for type_ in types)
