"""One database, and the two kinds of transaction that everything else uses."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from jobs.errors import SpecError, StoreError, TransientError
from jobs.store.migrate import bring_up_to_date

BUSY_TIMEOUT_S = 30.0

# SQLite's locks and its shared-memory index do not work across machines (sqlite.org/wal.html, "disadvantages" 2).
NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "fuse.sshfs",
    "9p",
}


class Database:
    """Transactions over one engine; threads may share it.

    Raises TransientError where waiting may help (locked, full), StoreError for the rest.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> "Database":
        """Connect, and see to it that the schema is ours: a SQLite file is made and upgraded on the way."""
        database = cls.connect(url, busy_timeout_s=busy_timeout_s)
        with database.explained():
            bring_up_to_date(database.engine)
        return database

    @classmethod
    def connect(cls, url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> "Database":
        """As `open`, whatever the schema is: for those who look after it."""
        return cls(_engine(_parse(url), busy_timeout_s))

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @property
    def shown_url(self) -> str:
        """For messages: without the password."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view of the data."""
        with self.explained(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction that writes: all of it or nothing. On SQLite it holds the write lock from its start,
        because a reader that turns writer half-way is refused without waiting (SQLITE_BUSY_SNAPSHOT)."""
        with self.explained(), self.engine.connect() as connection:
            connection = connection.execution_options(kvjobs_writing=True)
            with connection.begin():
                yield connection

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise _explain(error, self.shown_url) from error


def _parse(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError:
        # The text may hold a password, so it is not repeated.
        raise SpecError("the database setting is not a URL; write sqlite:////path/kvjobs.db") from None


def _engine(url: URL, busy_timeout_s: float) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, pool_pre_ping=True)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            raise SpecError(f"the database {url.get_backend_name()!r} cannot be used here: {error}") from None
    path = Path(url.database or "")
    if not url.database or url.database == ":memory:":
        raise SpecError(
            "a SQLite database in memory cannot be shared with a worker; name a file: sqlite:////path/kvjobs.db"
        )
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder {path.absolute().parent} cannot be made: {error.strerror}; set KVJOBS_HOME to one that can"
        ) from None
    _refuse_network_file_system(path.absolute().parent)
    engine = create_engine(url, connect_args={"timeout": busy_timeout_s})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves: Python's sqlite3 would say it too late
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("kvjobs_writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _refuse_network_file_system(folder: Path) -> None:
    """Raise StoreError where /proc/mounts says that the folder is on another machine; elsewhere nothing is known."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return
    containing = [(Path(point), kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    point, kind = max(containing, key=lambda mount: len(mount[0].parts), default=(folder, ""))
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(
            f"{folder} is on a network file system ({kind} at {point}), where SQLite's locks do not hold; "
            "set KVJOBS_HOME to a local folder"
        )


def _explain(error: DBAPIError, url: str) -> StoreError:
    """What happened, in the words of someone who can do something about it."""
    text = str(error.orig)
    if "database is locked" in text:
        return TransientError(f"the database {url} is locked by another program; close it, or wait and try again")
    if "disk is full" in text:
        return TransientError(f"the disk of the database {url} is full; free some space there, then try again")
    if "disk I/O error" in text:
        return TransientError(f"the disk of the database {url} reports an error; look at the disk (is it full?)")
    if "not a database" in text:
        return StoreError(f"{url} is not a database; name another file, or move this one away")
    if "readonly" in text or "unable to open" in text:
        return StoreError(f"{url} cannot be written ({text}); check its permissions, or set KVJOBS_HOME")
    if "malformed" in text:
        return StoreError(f"{url} is damaged ({text}); restore it from a copy")
    if error.connection_invalidated:
        return TransientError(f"the connection to {url} was lost ({text.strip()})")
    return StoreError(f"the database {url} refuses: {text.strip()}")
