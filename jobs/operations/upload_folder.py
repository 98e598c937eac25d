"""The folder with the bytes of files that programs sent: each under the id of its file, and whole, or under a name that
says that it is not.

A file that is being written is locked, so that what a killed process left behind is told from what comes just now.
"""

import fcntl
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jobs.errors import TransientError
from jobs.settings import Settings
from jobs.system.private import FILE, make_folder

PARTIAL = ".partial-"
FILE_ID = re.compile(r"file-[a-z0-9-]{1,64}")  # nothing else becomes a path
ORPHAN_S = 3600.0  # a file without a row is younger for a moment


@dataclass(frozen=True, slots=True)
class UploadFolder:
    """`uploads` in the home of this process. On several machines each has its own."""

    path: Path

    @classmethod
    def of(cls, settings: Settings) -> "UploadFolder":
        return cls(settings.home / "uploads")

    def find(self, file_id: str) -> Path | None:
        """The file with these bytes; None: they are not on this machine."""
        path = self.path / file_id
        return path if FILE_ID.fullmatch(file_id) and path.is_file() else None

    def delete(self, file_id: str) -> None:
        """Delete the bytes, if they are here. Whoever reads them just now reads on."""
        if (path := self.find(file_id)) is not None:
            with suppress(FileNotFoundError):
                path.unlink()

    @contextmanager
    def new_file(self) -> Iterator[BinaryIO]:
        """A file to write, which is deleted at the end unless `keep` has given it its name. Raises TransientError where
        the disk refuses."""
        path = self.path / f"{PARTIAL}{secrets.token_hex(16)}"
        with refusing(self.path):
            make_folder(self.path)
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE)
        with os.fdopen(handle, "wb", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield file
            finally:
                with suppress(FileNotFoundError):
                    path.unlink()

    def keep(self, file: BinaryIO, file_id: str) -> None:
        """Give a new file, all of whose bytes are written, its name. It is on the disk then. Raises TransientError."""
        assert FILE_ID.fullmatch(file_id)
        with refusing(self.path):
            os.fsync(file.fileno())
            os.replace(os.readlink(f"/proc/self/fd/{file.fileno()}"), self.path / file_id)
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def clean_up(self, known: Callable[[Collection[str]], set[str]]) -> None:
        """Delete what a killed process left: parts of files that nobody writes, and files without a row. `known`: those
        of some ids that have one."""
        if not self.path.is_dir():
            return
        for path in self.path.glob(f"{PARTIAL}*"):
            if not _is_locked(path):
                path.unlink(missing_ok=True)
        old = [
            path.name
            for path in self.path.iterdir()
            if FILE_ID.fullmatch(path.name) and time.time() - path.stat().st_mtime > ORPHAN_S
        ]
        for file_id in set(old) - known(old):
            self.delete(file_id)


@contextmanager
def refusing(folder: Path) -> Iterator[None]:
    """Errors of the disk as TransientError: somebody may make room."""
    try:
        yield
    except OSError as error:
        raise TransientError(f"{folder} takes no more: {error.strerror}; make room there, and try again") from None


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
