"""Which databases a test runs on; a PostgreSQL database of the tests' own, on the server that is there.

`KVJOBS_TEST_POSTGRES` is the address of a server where databases may be made. Where none answers, tests that want one
are skipped on a laptop and fail in CI.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from jobs.store.database import Database
from jobs.store.schema import tables
from jobs.store.schema.migrate import upgrade

BOTH = ["sqlite", "postgresql"]
# Where a test runs that asks for `database` and says nothing: a command's output is compared by
# tests/commands/test_both_databases.py, so that other tests of commands need one database.
BY_LAYER = {"commands": ["sqlite"]}

ON_BOTH = pytest.mark.parametrize("database", BOTH, indirect=True)
# For what only one of the databases has: a file, pragmas, a lock for all.
ON_SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
# For what a server has: roles, functions that write, time limits of its own.
ON_POSTGRESQL = pytest.mark.parametrize("database", ["postgresql"], indirect=True)

SERVER = os.environ.get("KVJOBS_TEST_POSTGRES", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres")


@contextmanager
def own_database() -> Iterator[str]:
    """The address of a new, empty database for a role that owns it and may do nothing else; both go at the end."""
    name = f"kvjobs_test_{uuid.uuid4().hex[:12]}"
    try:
        with as_superuser() as server:
            server.execute(text(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'"))
            server.execute(text(f"CREATE DATABASE {name} OWNER {name}"))
            # The tests ask what is committed, not what survives a power cut.
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
def as_superuser(database: str | None = None) -> Iterator[Connection]:
    """To do what the roles of the tests may not; each statement is a transaction."""
    url = make_url(SERVER)
    server = create_engine(
        url.set(database=database or url.database), isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 5}
    )
    with server.connect() as connection:
        yield connection
    server.dispose()


def migrated(url: str) -> str:
    """The same address, with our tables behind it."""
    database = Database.connect(url)
    upgrade(database.engine)
    database.close()
    return url


def empty(database: Database) -> None:
    """No row is left in any table, and numbers start at 1 again. (By DELETE: a TRUNCATE of all takes 78 ms, this 1.)"""
    names = [table.name for table in reversed(tables.Base.metadata.sorted_tables)]
    with database.writing() as connection:
        sequences = connection.execute(text("SELECT sequencename FROM pg_sequences")).scalars()
        restarts = [f"SELECT setval('{name}', 1, false)" for name in sequences]
        connection.exec_driver_sql("; ".join([*(f"DELETE FROM {name}" for name in names), *restarts]))
