"""Files and folders that hold submitted data: created so that only their owner can read them, whatever the umask.

Existing ones keep their permissions; `kvjobs doctor` reports those that others can read.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

FOLDER, FILE = 0o700, 0o600


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, readable only by their owner. Raises OSError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process of this user created it
            folder.mkdir(mode=FOLDER)
            folder.chmod(FOLDER)  # the umask may have removed bits from the mode of mkdir
    if not path.is_dir():
        path.mkdir()  # raises the error that says why


def make_file(path: Path) -> None:
    """Create an empty file that only its owner can read, if there is none. Raises OSError."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE)
    except FileExistsError:
        return
    try:
        os.fchmod(handle, FILE)
    finally:
        os.close(handle)


def is_readable_by_others(path: Path) -> bool:
    """Whether another account can read this file: its mode and the modes of all folders above it allow that."""
    mode = path.stat().st_mode
    folders = [folder.stat().st_mode for folder in path.absolute().parents]
    everybody = mode & stat.S_IROTH and all(folder & stat.S_IXOTH for folder in folders)
    group = mode & stat.S_IRGRP and all(folder & (stat.S_IXGRP | stat.S_IXOTH) for folder in folders)
    return bool(everybody or group)
