"""A SQLite file that is replaced while it is open, as when somebody restores a copy: a connection that has it open goes
on with the file that was there before, which has no name any more."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DisconnectionError

from jobs.errors import StoreError
from jobs.private import make_file

_FILE = "kvjobs_file"  # in what a connection of the pool is known by: the file that it opened


class FileIdentity:
    """Listens to an engine, so that no transaction begins on a file that is no longer the one of that name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._was_there = False

    def before_connect(self, _dialect: Any, record: Any, *_arguments: Any) -> None:
        """Make the file where there has been none: SQLite would make it as the umask says. (Its -wal and -shm have the
        mode of the file.) Raises StoreError for one that has gone: an empty one in its place would hide that."""
        if not self._was_there:
            with suppress(OSError):  # what is wrong with the place, SQLite says
                make_file(self._path)
        file = self._now()
        self._was_there = self._was_there or file is not None
        if record is not None:
            record.info[_FILE] = file  # looked at before it is opened: if it is replaced in between, it is opened again

    def before_use(self, _connection: Any, record: Any, _proxy: Any) -> None:
        """Raises DisconnectionError for a connection to what was there before: the pool opens the file anew."""
        if self._now() != record.info.get(_FILE):
            raise DisconnectionError(f"{self._path} was replaced")

    def _now(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            if self._was_there:
                raise StoreError(
                    f"{self._path} has gone while it was in use; put it back, or set the database to another"
                ) from None
            return None
        except OSError:
            return None  # what is wrong, SQLite says
        return found.st_dev, found.st_ino
