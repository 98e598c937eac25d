"""A folder for as long as a block lasts. What a killed process left is removed by the next that makes one.

Knows: folders. Does not know: what is in them.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jobs.system.private import FOLDER, make_folder


@contextmanager
def temporary_folder(spool: Path, prefix: str) -> Iterator[Path]:
    """A new folder in `spool`, with a lock on it, which the kernel releases when the process dies; those of dead
    processes under this prefix are removed. Raises OSError."""
    make_folder(spool)
    _remove_left_over(spool, prefix)
    folder, lock = _locked_folder(spool, prefix)
    try:
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _locked_folder(spool: Path, prefix: str) -> tuple[Path, int]:
    while True:
        folder = spool / f"{prefix}{secrets.token_hex(8)}"
        folder.mkdir(mode=FOLDER)
        with suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY)
            with suppress(BlockingIOError):
                _lock(lock)
                if os.fstat(lock).st_nlink:
                    return folder, lock
            os.close(lock)
        # Another process took it for a left one before it was locked.


def _lock(folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a disk without locks
        pass


def _remove_left_over(spool: Path, prefix: str) -> None:
    for folder in spool.glob(f"{prefix}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)
