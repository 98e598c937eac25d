"""An engine for a PostgreSQL server: timeouts, keep-alives, and the settings of each new session."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import NoSuchModuleError

from jobs.errors import SpecError
from jobs.requirements import install_command

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


def postgresql_engine(url: URL, busy_timeout_s: float, silence_s: float | None) -> Engine:
    """An engine for a server; see `make_engine`."""
    engine, session = _connectable(url), dict(SESSION)
    if silence_s is not None:
        session["idle_in_transaction_session_timeout"] = max(1, int(1000 * silence_s))  # milliseconds
        session["lock_timeout"] = max(1, int(1000 * busy_timeout_s))
    event.listen(engine, "connect", partial(_set_up, session))
    event.listen(engine, "checkin", _reset_read_only)
    return engine


def _connectable(url: URL) -> Engine:
    defaults = {name: value for name, value in POSTGRESQL.items() if name not in url.query}
    try:
        # Each lane holds a connection for as long as a transaction, so there may be as many as lanes. The ping finds
        # connections that a restart of the server has cut.
        return create_engine(url, pool_pre_ping=True, max_overflow=-1, connect_args=defaults)
    except NoSuchModuleError:
        raise SpecError(f"the driver {url.drivername!r} is not known; write postgresql://user@host/name") from None
    except ModuleNotFoundError as error:
        raise SpecError(
            f"a PostgreSQL database needs the package {error.name}, which is not installed: "
            + install_command(error.name or "psycopg")
        ) from None


def _set_up(session: Mapping[str, int], connection: Any, _record: Any) -> None:
    """Set the settings of a new session in one statement, hence one round trip. (As `options` of the connection they
    would cost none, but pgbouncer refuses those.)"""
    settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in session.items())
    connection.autocommit = True
    connection.execute(f"SELECT {settings}")
    connection.autocommit = False


def _reset_read_only(connection: Any, _record: Any) -> None:
    """Let the server's default_transaction_read_only decide about the next transaction. After a read-only one,
    SQLAlchemy sets the connection to READ WRITE."""
    if connection is not None and not connection.closed:
        connection.read_only = None
