"""A file of a model as it is on the disk: opened, and refused if it has no content. Needs only the standard library."""

from pathlib import Path
from typing import BinaryIO

from jobs.errors import ModelError

_LFS_POINTER = b"version https://git-lfs"


def open_file(file: Path) -> BinaryIO:
    """Open it for reading; raise ModelError where that fails."""
    try:
        return file.open("rb")
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error


def refuse_placeholder(file: Path) -> None:
    """Raise ModelError for a file that is empty, or the pointer that Git LFS leaves in place of a large one."""
    with open_file(file) as content:
        start = content.read(len(_LFS_POINTER))
    if not start:
        raise ModelError(f"{file} is empty: download or export it again")
    if start == _LFS_POINTER:
        raise ModelError(f"{file} is a Git LFS pointer, not the file itself: run `git lfs pull` where it came from")
