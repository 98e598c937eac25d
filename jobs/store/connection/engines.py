"""A SQLAlchemy engine for a database URL; of a PostgreSQL server with timeouts, keep-alives, and the settings of each
new session, or behind a pooler of each transaction.

Knows: how a URL is read. Does not know: pragmas, tables.
"""

import math
import re
import select
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError, NoSuchModuleError

from jobs.errors import SpecError
from jobs.store.connection.sqlite_engine import sqlite_engine
from jobs.system.requirements import install_command

PASSWORD_IN_URL = "in a password write @, :, / and ? as %40, %3A, %2F and %3F"


def make_engine(address: str, busy_timeout_s: float, silence_s: float | None = None) -> Engine:
    """An engine for a SQLAlchemy URL; `silence_s` as in `Database.open`. Raises SpecError for a URL that cannot be
    used, StoreError for a folder that cannot hold the database."""
    url = parse_url(address)
    if url.get_backend_name() == "sqlite":
        return sqlite_engine(url, busy_timeout_s)
    if url.get_backend_name() == "postgresql":
        return postgresql_engine(url, busy_timeout_s, silence_s)
    raise SpecError(f"the database {url.get_backend_name()!r} cannot be used; kvjobs knows sqlite and postgresql")


def parse_url(address: str) -> URL:
    """The URL with its driver. Raises SpecError for a text that is none."""
    # The text may hold a password, so no message repeats it.
    try:
        url = make_url(address)
    except ArgumentError:
        raise SpecError(
            "the database setting is not a URL; write sqlite:////path/kvjobs.db or postgresql://user@host/name"
        ) from None
    except ValueError:  # the port
        raise SpecError(f"the database setting is not a URL: its port is not a number; {PASSWORD_IN_URL}") from None
    if url.get_backend_name() == "postgresql" and not _has_one_reading(address, url):
        raise SpecError(f"the database setting has an @ too many; {PASSWORD_IN_URL}")
    # libpq, Docker and Heroku write `postgres://`, for which SQLAlchemy looks for another driver.
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def _has_one_reading(address: str, url: URL) -> bool:
    """Whether the text after the last @ is the host. If not, the password holds an @, and what follows that @ would be
    taken for the host and shown in messages."""
    _, at, behind = re.split(r"\?\w+=", address, maxsplit=1)[0].rpartition("@")
    return not at or behind.lstrip("[").startswith(url.host or ("/" if url.database else ""))


# Defaults that a URL may override (`?connect_timeout=3`). A server that vanished without closing its connections is
# given up after a minute; a lane would wait for it for hours (postgresql.org/docs/current/libpq-connect.html).
POSTGRESQL = {
    "application_name": "kvjobs",
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 4,
    "tcp_user_timeout": 60_000,  # milliseconds
}
# The reverse: the server ends the session of a vanished client after a minute, not after two hours
# (postgresql.org/docs/current/runtime-config-connection.html).
SESSION = {"tcp_keepalives_idle": 20, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 4}


# In the `info` of a connection: whether it is one to a pooler, and when it was last used.
POOLED, USED_AT = "kvjobs_pooled", "kvjobs_used_at"
PING_AFTER_S = 1.0


def postgresql_engine(url: URL, busy_timeout_s: float, silence_s: float | None) -> Engine:
    """An engine for a server; see `make_engine`."""
    engine, limits = _connectable(url), dict[str, int]()
    if silence_s is not None:
        limits["idle_in_transaction_session_timeout"] = max(1, int(1000 * silence_s))  # milliseconds
        limits["lock_timeout"] = max(1, int(1000 * busy_timeout_s))
    event.listen(engine, "connect", partial(_set_up, SESSION | limits))
    event.listen(engine, "checkin", _reset_read_only)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", partial(_ping_if_idle, engine.dialect))
    if limits:
        event.listen(engine, "begin", partial(_limit_pooled, f"SELECT {_settings(limits, is_local='true')}"))
    return engine


def _connectable(url: URL) -> Engine:
    defaults = {name: value for name, value in POSTGRESQL.items() if name not in url.query}
    try:
        # Each lane holds a connection for as long as a transaction, so there may be as many as lanes.
        return create_engine(url, max_overflow=-1, connect_args=defaults)
    except NoSuchModuleError:
        raise SpecError(f"the driver {url.drivername!r} is not known; write postgresql://user@host/name") from None
    except ModuleNotFoundError as error:
        raise SpecError(
            f"a PostgreSQL database needs the package {error.name}, which is not installed: "
            + install_command(error.name or "psycopg")
        ) from None


def _set_up(session: Mapping[str, int], connection: Any, record: Any) -> None:
    """Set the settings of a new session in one statement, hence one round trip. (As `options` of the connection they
    would cost none, but pgbouncer refuses those.)

    A pooler gives each transaction to any session of the server, so settings and prepared statements would be found by
    others there. It is known by the number of the server's process, which is not the one that the connection was told:
    that only serves to cancel. Then the statement's settings end with it, and nothing is prepared.
    """
    is_pooled = "pg_backend_pid() <> %(told)s"
    connection.autocommit = True
    statement = f"SELECT {is_pooled}, {_settings(session, is_local=is_pooled)}"
    record.info[POOLED] = connection.execute(statement, {"told": connection.info.backend_pid}).fetchone()[0]
    connection.autocommit = False
    if record.info[POOLED]:
        connection.prepare_threshold = None


def _note_use(_connection: Any, record: Any) -> None:
    record.info[USED_AT] = time.monotonic()


def _ping_if_idle(dialect: Dialect, connection: Any, record: Any, _proxy: Any) -> None:
    """Find a connection that a restart of the server has cut: the pool then makes others, and the caller does not
    notice. One that was used a moment ago and has nothing to read is not asked: that would be one of four round trips
    of a short transaction, and a server that cuts a connection says so."""
    is_recent = time.monotonic() - record.info.get(USED_AT, math.inf) < PING_AFTER_S
    if is_recent and not _has_something_to_read(connection.fileno()):
        return
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError from error


def _has_something_to_read(socket: int) -> bool:
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))


def _limit_pooled(statement: str, connection: Connection) -> None:
    """Set time limits for a transaction that begins, as `_set_up` cannot behind a pooler."""
    if connection.info[POOLED]:
        connection.exec_driver_sql(statement)


def _settings(values: Mapping[str, int], is_local: str) -> str:
    """SQL for a SELECT that sets settings: where `is_local`, until the transaction ends."""
    return ", ".join(f"set_config('{name}', '{value}', {is_local})" for name, value in values.items())


def _reset_read_only(connection: Any, _record: Any) -> None:
    """Let the server's default_transaction_read_only decide about the next transaction. After a read-only one,
    SQLAlchemy sets the connection to READ WRITE."""
    if connection is not None and not connection.closed:
        connection.read_only = None
