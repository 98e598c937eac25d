"""A SQLite file that this process may only read, because of its own mode, its folder's, or a read-only disk.

In WAL mode even a reader writes beside the file: SQLite creates -wal and -shm, and removes them at the end. Where they
exist, because another process has the file open, they are read too. Where they do not, the file is complete and is
opened as one that nobody writes ("immutable": sqlite.org/uri.html).
"""

import os
from pathlib import Path

from jobs.errors import StoreError


def is_read_only(path: Path) -> bool:
    """Whether the file exists and this process cannot write it, or cannot write the files that SQLite needs beside
    it."""
    if not path.exists():
        return False
    beside = _log(path), _index(path)
    return not (_may_write(path) and (_may_write(path.absolute().parent) or all(map(_may_write, beside))))


def read_only_uri(path: Path) -> str:
    """The SQLite URI that opens the file for reading. Raises StoreError where its last changes are in a log that cannot
    be read."""
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
