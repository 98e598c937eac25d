"""One database, and the kinds of transaction on it: `reading`, `reading_once` and `writing`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from jobs.settings import hide_passwords
from jobs.store.connection.database_errors import explain, locked_error
from jobs.store.connection.engines import make_engine
from jobs.store.connection.fair_lock import FairLock
from jobs.store.connection.sockets import Sockets
from jobs.store.schema.migrate import bring_up_to_date
from jobs.system.suspension import unsuspended

BUSY_TIMEOUT_S = 30.0


class Database:
    """Transactions over one engine; threads may share it.

    Raises TransientError where waiting may help (locked, disk full, unreachable), StoreError for other errors.
    """

    def __init__(self, engine: Engine, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.engine = engine
        self._busy_timeout_s = busy_timeout_s
        self._write_lock = FairLock()
        self._sockets = Sockets(engine)
        self._closed = threading.Event()
        event.listen(engine, "checkin", partial(_close_if, self._closed))

    @classmethod
    def open(cls, url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S, silence_s: float | None = None) -> "Database":
        """Connect, and check the version of the schema; a SQLite file is created and upgraded by itself.

        `silence_s` is for a worker, which has no transaction open while it computes: a PostgreSQL server rolls back a
        transaction that is idle for so long, and no statement waits for a lock for longer than `busy_timeout_s`.
        """
        database = cls.connect(url, busy_timeout_s=busy_timeout_s, silence_s=silence_s)
        try:
            with database.translated_errors():
                bring_up_to_date(database.engine)
        except BaseException:
            database.close()
            raise
        return database

    @classmethod
    def connect(cls, url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S, silence_s: float | None = None) -> "Database":
        """Open a database as `open` does, whatever the version of its schema: for `kvjobs db`, which upgrades it."""
        return cls(make_engine(url, busy_timeout_s, silence_s), busy_timeout_s)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database; None on PostgreSQL."""
        return Path(self.engine.url.database or "") if self.is_sqlite else None

    @property
    def shown_url(self) -> str:
        """The URL of the database without its password, for messages."""
        return hide_passwords(self.engine.url.render_as_string(hide_password=False))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads: every statement in it sees the same snapshot of the data."""
        with self.translated_errors(), self.engine.connect() as connection:
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    @contextmanager
    def reading_once(self) -> Iterator[Connection]:
        """A connection for one statement that reads. It has no transaction but its own, so BEGIN and COMMIT, which are
        two of three round trips, are not sent."""
        with self.translated_errors(), self.engine.connect() as connection:
            yield connection if self.is_sqlite else connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes: all of it or nothing is committed. On SQLite it holds the write lock from its
        start, because a reader that begins to write is refused without waiting (SQLITE_BUSY_SNAPSHOT). On PostgreSQL
        each statement sees what was committed before it (READ COMMITTED), so that it can read again behind a lock.
        Ctrl-Z stops this process after the transaction, not in it: nobody else could write to a SQLite file then."""
        with self._write_turn(), self.translated_errors(), self.engine.connect() as connection:
            connection = connection.execution_options(kvjobs_writing=True)
            with unsuspended(), connection.begin():
                yield connection

    def cut_connections(self, silence_s: float) -> bool:
        """Shut down every connection to the server if a transaction has lasted longer than `silence_s`. Returns whether
        it did. Each thread that waits for an answer then gets a TransientError. Does nothing on SQLite."""
        return self._sockets.cut(silence_s)

    def close(self) -> None:
        """Close every connection; one that another thread has just now is closed at the end of its transaction."""
        self._closed.set()
        self.engine.dispose()

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise the errors of the driver and of the pool as errors of kvjobs."""
        try:
            with self._sockets.in_use():
                yield
        except (DBAPIError, PoolTimeout) as error:
            raise explain(error, self.shown_url, self.file) from error

    @contextmanager
    def _write_turn(self) -> Iterator[None]:
        """On SQLite, which has one writer at a time: wait in a queue. SQLite itself makes a waiting writer poll, so of
        40 threads one waited for up to 8 s while others wrote again and again; in a queue, 0.6 s."""
        if not self.is_sqlite:
            yield
            return
        if not self._write_lock.acquire(self._busy_timeout_s):
            raise locked_error(self.shown_url, self.file)
        try:
            yield
        finally:
            self._write_lock.release()


def _close_if(closed: threading.Event, _: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
    """Close a connection that comes back when its database is closed: the pool would keep it until the garbage
    collector finds it."""
    if closed.is_set():
        entry.close()
