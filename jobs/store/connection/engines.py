"""Connecting: what a SQLite file and a PostgreSQL server each need to be told.

Knows: drivers, pragmas, timeouts. Does not know: tables.
"""

import math
import re
import sqlite3
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from jobs.errors import SpecError, StoreError
from jobs.private import make_folder
from jobs.requirements import install_command
from jobs.store.connection.mounts import mount_of
from jobs.store.connection.sqlite_file import FilePlace, may_only_be_read, reading_uri

# What an address may say otherwise (`?connect_timeout=3`). A server that vanished without a word is given up after a
# minute, else a lane would wait for it for hours (postgresql.org/docs/current/libpq-connect.html).
POSTGRESQL = {
    "application_name": "kvjobs",
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 4,
    "tcp_user_timeout": 60_000,  # milliseconds
}
# The same the other way round: what a vanished client leaves behind on the server goes after a minute, not after two
# hours (postgresql.org/docs/current/runtime-config-connection.html).
SESSION = {"tcp_keepalives_idle": 20, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 4}


PASSWORD_IN_URL = "in a password write @, :, / and ? as %40, %3A, %2F and %3F"


READ_ONLY = "kvjobs_read_only"  # an option of an engine whose file we may only read


def make_engine(address: str, busy_timeout_s: float, silence_s: float | None = None) -> Engine:
    """An engine for a SQLAlchemy URL. `silence_s`: see `Database.open`. Raise SpecError for one that cannot be used,
    StoreError for a bad folder."""
    url = _parse(address)
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, busy_timeout_s)
    engine, session = _postgresql(url), dict(SESSION)
    if silence_s is not None:
        session["idle_in_transaction_session_timeout"] = max(1, int(1000 * silence_s))  # milliseconds
        session["lock_timeout"] = max(1, int(1000 * busy_timeout_s))
    event.listen(engine, "connect", partial(_set_up_postgresql, session))
    event.listen(engine, "checkin", _let_the_server_decide)
    return engine


def _parse(address: str) -> URL:
    # The text may hold a password, so no message repeats it.
    try:
        url = make_url(address)
    except ArgumentError:
        raise SpecError(
            "the database setting is not a URL; write sqlite:////path/kvjobs.db or postgresql://user@host/name"
        ) from None
    except ValueError:  # the port
        raise SpecError(f"the database setting is not a URL: its port is no number; {PASSWORD_IN_URL}") from None
    if url.get_backend_name() == "postgresql" and not _has_one_reading(address, url):
        raise SpecError(f"the database setting has an @ too many; {PASSWORD_IN_URL}")
    # What libpq, Docker and Heroku call a PostgreSQL address; SQLAlchemy would look for another driver.
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def _has_one_reading(address: str, url: URL) -> bool:
    """Whether what stands behind the last @ is the host: else a part of the password is taken for it, and shown."""
    _, at, behind = re.split(r"\?\w+=", address, maxsplit=1)[0].rpartition("@")
    return not at or behind.lstrip("[").startswith(url.host or ("/" if url.database else ""))


def _postgresql(url: URL) -> Engine:
    if url.get_backend_name() != "postgresql":
        raise SpecError(f"the database {url.get_backend_name()!r} cannot be used; kvjobs knows sqlite and postgresql")
    told = {name: value for name, value in POSTGRESQL.items() if name not in url.query}
    try:
        # Each lane holds a connection for as long as a transaction, so there may be as many as lanes. The ping finds
        # the connections that a restart of the server has cut.
        return create_engine(url, pool_pre_ping=True, max_overflow=-1, connect_args=told)
    except NoSuchModuleError:
        raise SpecError(f"the driver {url.drivername!r} is not known; write postgresql://user@host/name") from None
    except ModuleNotFoundError as error:
        raise SpecError(
            f"a PostgreSQL database needs the package {error.name}, which is not installed: "
            + install_command(error.name or "psycopg")
        ) from None


def _set_up_postgresql(session: Mapping[str, int], connection: Any, _record: Any) -> None:
    """One statement, hence one more way to the server and back. (As `options` of the connection they would cost none,
    and pgbouncer would refuse it.)"""
    settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in session.items())
    connection.autocommit = True
    connection.execute(f"SELECT {settings}")
    connection.autocommit = False


def _let_the_server_decide(connection: Any, _record: Any) -> None:
    """After a transaction that was to be read-only, SQLAlchemy leaves READ WRITE behind for the next one, whatever the
    server's default_transaction_read_only says."""
    if connection is not None and not connection.closed:
        connection.read_only = None


def _sqlite(url: URL, busy_timeout_s: float) -> Engine:
    path = Path(url.database or "")
    if not url.database or url.database == ":memory:":
        raise SpecError(
            "a SQLite database in memory cannot be shared with a worker; name a file: sqlite:////path/kvjobs.db"
        )
    if may_only_be_read(path):
        return _reading_sqlite(url, path, busy_timeout_s)
    try:
        make_folder(path.absolute().parent)
    except OSError as error:
        raise StoreError(
            f"the folder {path.absolute().parent} cannot be made: {error.strerror}; set KVJOBS_HOME to one that can"
        ) from None
    _refuse_network_file_system(path.absolute().parent)
    # A size of 0 is none: each lane holds a connection for as long as a transaction, so there may be as many as lanes.
    # (Opening one for each transaction took 0.8 ms, taking one that is open 0.1.)
    engine = create_engine(url, pool_size=0, connect_args={"timeout": busy_timeout_s})
    place = FilePlace(path)
    event.listen(engine, "do_connect", place.connecting)
    event.listen(engine, "checkout", place.used)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _reading_sqlite(url: URL, path: Path, busy_timeout_s: float) -> Engine:
    """Each transaction opens the file anew: by then somebody else may have begun to write it."""
    _refuse_network_file_system(path.absolute().parent)
    engine = create_engine(
        url, poolclass=NullPool, connect_args={"timeout": busy_timeout_s}, execution_options={READ_ONLY: True}
    )
    event.listen(engine, "do_connect", partial(_open_to_read, path))
    event.listen(engine, "connect", _set_up_reading_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _open_to_read(path: Path, _dialect: Dialect, _record: Any, arguments: list[Any], keywords: dict[str, Any]) -> None:
    arguments[0] = reading_uri(path)
    keywords["uri"] = True


def _set_up_reading_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None
    add_mathematics(connection)


def _set_up_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves: Python's sqlite3 would say it too late
    add_mathematics(connection)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def add_mathematics(connection: sqlite3.Connection) -> None:
    """exp and ln, which the views need and which SQLite has only where it was built with them. As there, what is no
    number is null and what is too large is infinite."""
    try:
        connection.execute("SELECT exp(0), ln(1)")
    except sqlite3.OperationalError:
        connection.create_function("exp", 1, _exp, deterministic=True)
        connection.create_function("ln", 1, _ln, deterministic=True)


def _exp(value: Any) -> float | None:
    if not isinstance(value, int | float):
        return None
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _ln(value: Any) -> float | None:
    return math.log(value) if isinstance(value, int | float) and value > 0 else None


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("kvjobs_writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _refuse_network_file_system(folder: Path) -> None:
    """Raise StoreError where the folder is known to be on another machine."""
    mount = mount_of(folder)
    if mount is not None and mount.is_of_network:
        raise StoreError(
            f"{folder} is on a network file system ({mount.kind} at {mount.point}), where SQLite's locks do not hold; "
            "set KVJOBS_HOME to a local folder"
        )
