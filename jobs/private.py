"""Files and folders of ours that hold what people submitted: nobody but their owner may read them, whatever the umask
says. What was there before is left as it is; `kvjobs doctor` tells who may read it."""

import os
import stat
from contextlib import suppress
from pathlib import Path

FOLDER, FILE = 0o700, 0o600


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for its owner alone. Raises OSError."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process was quicker: it is ours too
            folder.mkdir(mode=FOLDER)
            folder.chmod(FOLDER)  # a umask may take bits away from mkdir
    if not path.is_dir():
        path.mkdir()  # says why it cannot be


def make_file(path: Path) -> None:
    """Make an empty file for its owner alone, unless there is one already. Raises OSError."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE)
    except FileExistsError:
        return
    try:
        os.fchmod(handle, FILE)
    finally:
        os.close(handle)


def is_readable_by_others(path: Path) -> bool:
    """Whether an account other than the owner's may read this file: its own mode allows it, and so does every folder
    above it."""
    mode = path.stat().st_mode
    folders = [folder.stat().st_mode for folder in path.absolute().parents]
    everybody = mode & stat.S_IROTH and all(folder & stat.S_IXOTH for folder in folders)
    group = mode & stat.S_IRGRP and all(folder & (stat.S_IXGRP | stat.S_IXOTH) for folder in folders)
    return bool(everybody or group)
