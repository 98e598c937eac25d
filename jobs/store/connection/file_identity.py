"""Which file a connection has open. A file that is replaced while it is open, as when a copy is restored, keeps being
read and written through its old connections, although it has no name any more."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DisconnectionError

from jobs.errors import StoreError
from jobs.private import make_file

_FILE = "kvjobs_file"  # key in the `info` of a pooled connection: the file that it opened


class FileIdentity:
    """Compares device and inode, so that no transaction begins on a file that was replaced. Its methods are listeners
    of an engine's events."""

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
