"""A SQLAlchemy engine for a database URL.

Knows: how a URL is read. Does not know: pragmas, timeouts, tables.
"""

import re

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

from jobs.errors import SpecError
from jobs.store.connection.postgresql_engine import postgresql_engine
from jobs.store.connection.sqlite_engine import sqlite_engine

PASSWORD_IN_URL = "in a password write @, :, / and ? as %40, %3A, %2F and %3F"


def make_engine(address: str, busy_timeout_s: float, silence_s: float | None = None) -> Engine:
    """An engine for a SQLAlchemy URL; `silence_s` as in `Database.open`. Raises SpecError for a URL that cannot be
    used, StoreError for a folder that cannot hold the database."""
    url = _parse(address)
    if url.get_backend_name() == "sqlite":
        return sqlite_engine(url, busy_timeout_s)
    if url.get_backend_name() == "postgresql":
        return postgresql_engine(url, busy_timeout_s, silence_s)
    raise SpecError(f"the database {url.get_backend_name()!r} cannot be used; kvjobs knows sqlite and postgresql")


def _parse(address: str) -> URL:
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
