"""An engine for a SQLite file: pragmas, the start of a transaction, and where the file may be."""

import math
import os
import sqlite3
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DisconnectionError

from jobs.errors import SpecError, StoreError
from jobs.store.connection.mounts import mount_of
from jobs.system.private import make_file, make_folder

READ_ONLY = "kvjobs_read_only"  # execution option of an engine whose file may only be read


def sqlite_engine(url: URL, busy_timeout_s: float) -> Engine:
    """An engine for a file, which is created with its folder where it is missing; see `make_engine`."""
    path = Path(url.database or "")
    if not url.database or url.database == ":memory:":
        raise SpecError(
            "a SQLite database in memory cannot be shared with a worker; name a file: sqlite:////path/kvjobs.db"
        )
    if is_read_only(path):
        return _read_only_engine(url, path, busy_timeout_s)
    try:
        make_folder(path.absolute().parent)
    except OSError as error:
        raise StoreError(
            f"the folder {path.absolute().parent} cannot be created: {error.strerror}; set KVJOBS_HOME to another"
        ) from None
    _refuse_network_file_system(path.absolute().parent)
    # pool_size=0 means no limit: each lane holds a connection for as long as a transaction, so there may be as many as
    # lanes. (Opening a connection for each transaction took 0.8 ms, taking one from the pool 0.1.)
    engine = create_engine(url, pool_size=0, connect_args={"timeout": busy_timeout_s})
    identity = FileIdentity(path)
    event.listen(engine, "do_connect", identity.before_connect)
    event.listen(engine, "checkout", identity.before_use)
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _read_only_engine(url: URL, path: Path, busy_timeout_s: float) -> Engine:
    """An engine that opens the file for each transaction: by then another process may have begun to write it."""
    _refuse_network_file_system(path.absolute().parent)
    engine = create_engine(
        url, poolclass=NullPool, connect_args={"timeout": busy_timeout_s}, execution_options={READ_ONLY: True}
    )
    event.listen(engine, "do_connect", partial(_open_read_only, path))
    event.listen(engine, "connect", _set_up_read_only)
    event.listen(engine, "begin", _begin)
    return engine


def _open_read_only(
    path: Path, _dialect: Dialect, _record: Any, arguments: list[Any], keywords: dict[str, Any]
) -> None:
    arguments[0] = read_only_uri(path)
    keywords["uri"] = True


def _set_up_read_only(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None
    add_exp_and_ln(connection)


def _set_up(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # `_begin` sends BEGIN: Python's sqlite3 would send it too late
    add_exp_and_ln(connection)
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        # Only a new file can be made incremental. (On another, the pragma would take the write lock at every connect.)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # `jobs.store.disk_space.free_pages` shortens the file
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get("kvjobs_writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _refuse_network_file_system(folder: Path) -> None:
    """Raises StoreError where the folder is known to be on another machine."""
    mount = mount_of(folder)
    if mount is not None and mount.is_network:
        raise StoreError(
            f"{folder} is on a network file system ({mount.kind} at {mount.point}), where SQLite's locks do not hold; "
            "set KVJOBS_HOME to a local folder"
        )


_FILE = "kvjobs_file"  # in the `info` of a pooled connection, the key of the file that it opened


class FileIdentity:
    """Which file a connection has open, by device and inode, so that no transaction begins on a file that was replaced:
    one that is replaced while it is open, as when a copy is restored, keeps being read and written through its old
    connections, although it has no name any more. Its methods are listeners of an engine's events."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._was_there = False

    def before_connect(self, _dialect: Any, record: Any, *_arguments: Any) -> None:
        """Create a missing file for its owner alone: SQLite would use the umask. (Its -wal and -shm get the mode of the
        file.) Raises StoreError for a file that existed before: an empty one in its place would hide the loss."""
        if not self._was_there:
            with suppress(OSError):  # SQLite's own error says what is wrong with the folder
                make_file(self._path)
        file = self._current()
        self._was_there = self._was_there or file is not None
        if record is not None:
            record.info[_FILE] = file  # read before SQLite opens the file: replaced in between, it is opened again

    def before_use(self, _connection: Any, record: Any, _proxy: Any) -> None:
        """Raises DisconnectionError where the connection's file was replaced: the pool then opens the new one."""
        if self._current() != record.info.get(_FILE):
            raise DisconnectionError(f"{self._path} was replaced")

    def _current(self) -> tuple[int, int] | None:
        """Device and inode of the file that has the name now; None where there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            if self._was_there:
                raise StoreError(
                    f"{self._path} was deleted while it was in use; restore it, or set the database to another"
                ) from None
            return None
        except OSError:
            return None  # SQLite's own error says what is wrong
        return found.st_dev, found.st_ino


def add_exp_and_ln(connection: sqlite3.Connection) -> None:
    """Add exp and ln, which the views need, where SQLite was built without them. As in SQLite, an argument that is not
    a number gives null, and a result that is too large is infinite."""
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


def is_read_only(path: Path) -> bool:
    """Whether the file exists and this process cannot write it, or cannot write the files that SQLite needs beside
    it."""
    if not path.exists():
        return False
    beside = _log(path), _index(path)
    return not (_may_write(path) and (_may_write(path.absolute().parent) or all(map(_may_write, beside))))


def read_only_uri(path: Path) -> str:
    """The SQLite URI that opens the file for reading. Raises StoreError where its last changes are in a log that cannot
    be read.

    In WAL mode even a reader writes beside the file: SQLite creates -wal and -shm, and removes them at the end. Where
    they exist, because another process has the file open, they are read too. Where they do not, the file is complete
    and is opened as one that nobody writes ("immutable": sqlite.org/uri.html).
    """
    file, log = path.absolute(), _log(path)
    if not is_read_only(path):
        return f"{file.as_uri()}?mode=ro"
    if not (log.exists() and log.stat().st_size):
        return f"{file.as_uri()}?mode=ro&immutable=1"
    if not _index(path).exists() and not _may_write(file.parent):
        raise StoreError(
            f"the last changes of {path} are in {log.name}, which SQLite reads only where it may write the folder: "
            "open it once as its owner (kvjobs ls), or copy both files elsewhere"
        )
    return f"{file.as_uri()}?mode=ro"


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _index(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
