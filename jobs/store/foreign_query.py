"""The rows of a query of another database, as JSON Lines: read-only, and as many in memory as a cursor fetches.

    integers, booleans, text, null      as they are
    double; decimal, numeric            a number; a number with all its digits; NaN and infinity are null
    date, time, timestamp               ISO 8601 text, in UTC with Z where there is a time zone
    interval                            seconds, as a number
    binary                              Base64 text
    uuid; arrays; json, jsonb           its usual text; lists; what they hold, digit by digit
    any other                           the text of the driver

Knows: dialects of SQL. Does not know: corpora; kvjobs' own tables.
"""

import base64
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import URL, Connection, Engine, NullPool, create_engine
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)

from jobs.errors import KvjobsError, SpecError
from jobs.store.connection.engines import parse_url
from jobs.store.connection.sqlite_engine import read_only_uri
from jobs.system.requirements import install_command

FETCHED_ROWS = 1000  # at a time
CONNECT_TIMEOUT_S = 10
SHOWN = 300  # characters of a database's own message
DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}


def query_lines(url: str, name: str, query: str) -> Iterator[bytes]:
    """A line of JSON for each row of the query. `name`: the database in messages, without passwords.

    Raises SpecError for an address or a query that the database refuses, and for rows that JSON cannot hold;
    KvjobsError where it cannot be reached, or the connection breaks.
    """
    engine = _engine(url, name)
    try:
        with _errors(name), engine.connect() as connection:
            yield from _lines(_read_only(connection), name, query)
    finally:
        engine.dispose()


def _engine(url: str, name: str) -> Engine:
    try:
        parsed = parse_url(url)
    except SpecError:
        raise SpecError(f"{name} is not the address of a database; write postgresql://user@host/name") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return _sqlite(parsed, name)
    if backend not in ("postgresql", "mysql", "mariadb"):
        raise SpecError(
            f"{name}: a database of {backend} cannot be asked; those that can are postgresql, mysql, sqlite"
        )
    parsed = parsed.set(drivername=DRIVERS.get(parsed.drivername, parsed.drivername))
    defaults = {} if "connect_timeout" in parsed.query else {"connect_timeout": CONNECT_TIMEOUT_S}
    try:
        return create_engine(parsed, poolclass=NullPool, connect_args=defaults)
    except (NoSuchModuleError, ArgumentError):
        raise SpecError(f"{name}: the driver {parsed.drivername!r} is not known; leave it out") from None
    except ModuleNotFoundError as error:
        package = error.name or backend
        raise SpecError(
            f"{name} is read with the package {package}, which is not installed: {install_command(package)}"
        ) from None


def _sqlite(url: URL, name: str) -> Engine:
    path = Path(url.database or "")
    if not path.is_file():
        raise SpecError(f"{name}: there is no such file; check the path (sqlite:////absolute/path.db)")
    return create_engine(
        "sqlite://", poolclass=NullPool, creator=lambda: sqlite3.connect(read_only_uri(path), uri=True)
    )


def _read_only(connection: Connection) -> Connection:
    """The connection, in a transaction that cannot write, and whose rows wait on the server."""
    match connection.dialect.name:
        case "postgresql":
            from psycopg.types.json import set_json_loads

            set_json_loads(orjson.Fragment, connection.connection.driver_connection)
            connection = connection.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")
        case "mysql" | "mariadb":
            connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
            connection.rollback()
    return connection.execution_options(stream_results=True, max_row_buffer=FETCHED_ROWS, no_parameters=True)


def _lines(connection: Connection, name: str, query: str) -> Iterator[bytes]:
    with closing(connection.exec_driver_sql(query.rstrip().rstrip(";"))) as result:
        if not result.returns_rows:
            raise SpecError(f"{name}: the statement gives no rows; write a query: select id, body as text from ...")
        columns = list(result.keys())
        if twice := next((column for column in columns if columns.count(column) > 1), None):
            raise SpecError(f"{name}: two columns of the query are called {twice!r}; rename one: {twice} as other")
        for number, row in enumerate(result, start=1):
            yield _line(columns, row, f"{name}: row {number}")


def _line(columns: Sequence[str], row: Sequence[Any], where: str) -> bytes:
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS
    try:
        return orjson.dumps(dict(zip(columns, row, strict=True)), _json_value, options)
    except orjson.JSONEncodeError as error:
        raise SpecError(f"{where} has a value that JSON cannot hold ({error}); cast it to text in the query") from None


def _json_value(value: Any) -> Any:
    """The values of types that orjson does not know."""
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f")) if value.is_finite() else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return list(value) if isinstance(value, set | frozenset) else str(value)


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """What a database says, in one sentence."""
    try:
        yield
    except DBAPIError as error:
        said = " ".join(str(error.orig).split())[:SHOWN]
        has_answered = getattr(error.orig, "sqlstate", None) or isinstance(error.orig, sqlite3.Error)
        is_of_server = isinstance(error, OperationalError | InterfaceError)
        if error.connection_invalidated or (is_of_server and not has_answered):
            said = said.split("failed: ", 1)[-1]
            raise KvjobsError(f"{name} cannot be reached, or the connection broke ({said}); try again") from None
        raise SpecError(f"{name} refuses the query: {said}") from None
    except SQLAlchemyError as error:
        raise SpecError(f"{name} cannot be asked: {' '.join(str(error).split())[:SHOWN]}") from None
