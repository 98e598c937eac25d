"""The databases that a test runs on, and temporary databases on an existing PostgreSQL server.

`KVJOBS_TEST_POSTGRES` is the address of a server where databases may be created. If none answers, tests that need one
are skipped on a laptop and fail in CI.
"""

import functools
import os
import sqlite3
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.engine.interfaces import Compiled
from sqlalchemy.exc import OperationalError

from jobs.store.database import Database
from jobs.store.schema import tables
from jobs.store.schema.migrate import VERSION_TABLE, schema_version, upgrade

BOTH = ["sqlite", "postgresql"]
# The databases of a test that uses `database` without a mark. Output of commands is compared on both by
# tests/commands/test_golden_bytes.py, so the other tests of commands use one.
BY_LAYER = {"commands": ["sqlite"]}

ON_BOTH = pytest.mark.parametrize("database", BOTH, indirect=True)
# For features of SQLite: a file, pragmas, one write lock.
ON_SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
# For features of a server: roles, functions that write, its own time limits.
ON_POSTGRESQL = pytest.mark.parametrize("database", ["postgresql"], indirect=True)
# A test on both with this many cases or more runs each case on one of them: they take turns.
MANY_CASES = 3

SERVER = os.environ.get("KVJOBS_TEST_POSTGRES", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres")


def on_the_other_database(items: Sequence[Any]) -> list[Any]:
    """Of tests with MANY_CASES the cases on the database whose turn it is not: the first is SQLite's, the second
    PostgreSQL's."""
    tests: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        database = item.callspec.params.get("database") if hasattr(item, "callspec") else None
        if database in BOTH:
            test, _, case = item.nodeid.partition("[")
            tests[test][case.replace(database, "")][database] = item
    found = []
    for cases in tests.values():
        pairs = [pair for pair in cases.values() if len(pair) == len(BOTH)]
        if len(pairs) >= MANY_CASES:
            found += [pair[BOTH[1 - place % 2]] for place, pair in enumerate(pairs)]
    return found


@contextmanager
def own_database() -> Iterator[str]:
    """The address of a new, empty database, for a role without other rights; both are dropped at the end."""
    name = f"kvjobs_test_{uuid.uuid4().hex[:12]}"
    try:
        with as_superuser() as server:
            server.execute(text(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'"))
            server.execute(text(f"CREATE DATABASE {name} OWNER {name}"))
            # The tests check what is committed, not what survives a power failure.
            server.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
    except OperationalError as error:
        pytest.skip(f"no PostgreSQL answers at {SERVER} (KVJOBS_TEST_POSTGRES): {error.orig}")
    try:
        yield make_url(SERVER).set(database=name, username=name, password=name).render_as_string(hide_password=False)
    finally:
        with as_superuser() as server:
            server.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
            server.execute(text(f"DROP ROLE {name}"))


@contextmanager
def copy_of(url: str) -> Iterator[str]:
    """The address of a copy of a database of `own_database`, to which nobody is connected; dropped at the end."""
    original = make_url(url)
    name = f"{original.database}_{uuid.uuid4().hex[:6]}"
    with as_superuser() as server:
        server.execute(text(f"CREATE DATABASE {name} OWNER {original.username} TEMPLATE {original.database}"))
        server.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
    try:
        yield original.set(database=name).render_as_string(hide_password=False)
    finally:
        with as_superuser() as server:
            server.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@contextmanager
def as_superuser(database: str | None = None) -> Iterator[Connection]:
    """A connection with the rights that the roles of the tests lack; each statement is its own transaction."""
    url = make_url(SERVER)
    server = create_engine(
        url.set(database=database or url.database), isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 5}
    )
    with server.connect() as connection:
        yield connection
    server.dispose()


def migrated(url: str) -> str:
    """Create all tables in the database at this address; returns the address."""
    database = Database.connect(url)
    upgrade(database.engine)
    database.close()
    return url


def make_tables(engine: Engine, like: Path) -> None:
    """As `upgrade` of a database without tables, from what the migrations have made of another file: 0.4 s less."""
    if engine.dialect.name != "sqlite" or schema_version(engine) is not None:
        upgrade(engine)
        return
    with engine.connect().execution_options(kvjobs_writing=True) as connection, connection.begin():
        if not inspect(connection).has_table(VERSION_TABLE):  # else another process was faster
            cursor = connection.connection.cursor()
            for statement in _statements(like):
                cursor.execute(statement)


@functools.cache
def _statements(like: Path) -> list[str]:
    """Those that make the tables and views of a file without rows."""
    with closing(sqlite3.connect(like)) as made:
        return [one for one in made.iterdump() if not one.startswith(("BEGIN", "COMMIT", "DELETE"))]


@event.listens_for(Engine, "connect")
def reverse_rows_without_an_order(connection: Any, _record: object) -> None:
    """SQLite gives the rows of a SELECT without ORDER BY in reverse, so that no code relies on the order of a key, in
    which they happen to be scanned."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA reverse_unordered_selects = ON")


class Statements(dict[Any, Compiled]):
    """What SQLAlchemy has compiled, shared by all engines of this process. Each would compile its statements anew, and
    a test has engines of its own: inserting a job into the first database took 19 ms, with this 8 ms."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(self._shared(key), default)

    def __setitem__(self, key: Any, compiled: Compiled) -> None:
        if len(self) == 2_000:  # migrations have tables of their own
            self.clear()
        super().__setitem__(self._shared(key), compiled)

    @staticmethod
    def _shared(key: Any) -> Any:
        """The key with the name of the dialect in place of the dialect of one engine, which stands first."""
        return (key[0].name, *key[1:])


STATEMENTS = Statements()


@event.listens_for(Engine, "engine_connect")
def share_compiled_statements(connection: Connection) -> None:
    connection.execution_options(compiled_cache=STATEMENTS)


def without_fsync(database: Database) -> Database:
    """The same SQLite database, which no longer waits for the disk: no test simulates a power failure, and on a busy
    disk the fsyncs take longer than the tests."""
    database.engine.dispose()
    event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
    return database


def empty(database: Database) -> None:
    """Delete all rows, and let ids start at 1 again. (DELETE takes 1 ms, a TRUNCATE of all tables 78 ms.)"""
    names = [table.name for table in reversed(tables.Base.metadata.sorted_tables)]
    with database.writing() as connection:
        sequences = connection.execute(text("SELECT sequencename FROM pg_sequences")).scalars()
        restarts = [f"SELECT setval('{name}', 1, false)" for name in sequences]
        connection.exec_driver_sql("; ".join([*(f"DELETE FROM {name}" for name in names), *restarts]))
