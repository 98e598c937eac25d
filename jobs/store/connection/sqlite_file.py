"""A SQLite file that we may only read: its own mode, its folder's, or the whole disk's.

SQLite in WAL mode writes beside the file even to read: it makes -wal and -shm, and takes them away at the end. Where
they are, because somebody has the file open, they are read with it. Where they are not, all there is to know is in the
file, and it is read as one that nobody writes ("immutable": sqlite.org/uri.html).

And a file that is replaced while it is open, as somebody does who restores a copy: who has it open goes on with what
was there before, which has no name any more.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DisconnectionError

from jobs.errors import StoreError
from jobs.private import make_file

_FILE = "kvjobs_file"  # in what a connection of the pool is known by: the file that it opened


class FilePlace:
    """Listens to an engine, so that no transaction begins on a file that is no longer the one of that name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._was_there = False

    def connecting(self, _dialect: Any, record: Any, *_arguments: Any) -> None:
        """Make the file where there has been none: SQLite would make it as the umask says. (Its -wal and -shm have the
        mode of the file.) Raises StoreError for one that has gone: an empty one in its place would hide that."""
        if not self._was_there:
            with suppress(OSError):  # what is wrong with the place, SQLite says
                make_file(self._path)
        file = self._now()
        self._was_there = self._was_there or file is not None
        if record is not None:
            record.info[_FILE] = file  # looked at before it is opened: if it is replaced in between, it is opened again

    def used(self, _connection: Any, record: Any, _proxy: Any) -> None:
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


def may_only_be_read(path: Path) -> bool:
    """Whether the file is there, and this process cannot write it, or cannot write what SQLite needs beside it."""
    if not path.exists():
        return False
    beside = _log(path), _index(path)
    return not (_may_write(path) and (_may_write(path.absolute().parent) or all(map(_may_write, beside))))


def reading_uri(path: Path) -> str:
    """How to open the file to read it alone. Raises StoreError where a part of it is in a log that cannot be read."""
    file, log = path.absolute(), _log(path)
    if not may_only_be_read(path):
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
