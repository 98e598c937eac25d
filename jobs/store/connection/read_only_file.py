"""A SQLite file that this process may only read: its own mode, its folder's, or the whole disk's.

SQLite in WAL mode writes beside the file even to read: it makes -wal and -shm, and takes them away at the end. Where
they are, because somebody has the file open, they are read with it. Where they are not, all there is to know is in the
file, and it is read as one that nobody writes ("immutable": sqlite.org/uri.html).
"""

import os
from pathlib import Path

from jobs.errors import StoreError


def is_read_only(path: Path) -> bool:
    """Whether the file is there, and this process cannot write it, or cannot write what SQLite needs beside it."""
    if not path.exists():
        return False
    beside = _log(path), _index(path)
    return not (_may_write(path) and (_may_write(path.absolute().parent) or all(map(_may_write, beside))))


def read_only_uri(path: Path) -> str:
    """How to open the file to read it alone. Raises StoreError where a part of it is in a log that cannot be read."""
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
