"""A file that is written under a temporary name in the folder of its target, and renamed to it when it is complete.

    folder/.kvjobs-<16 digits>.part   locked by the process that writes it; the kernel unlocks it when that dies
    folder/results.jsonl              what was there before, until the rename

Knows: files. Does not know: results.
"""

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_PART = re.compile(r"\.kvjobs-[0-9a-f]{16}\.part")
_ACL = "system.posix_acl_access"


@contextmanager
def replaced_file(target: Path) -> Iterator[BinaryIO]:
    """Open the file that will be `target`; it disappears if the block raises. Of a file that it replaces it has owner
    and permissions, or fewer; a new one has those of any new file (the umask decides). Raises OSError."""
    _remove_left_over(target.parent)
    before = os.stat(target) if target.exists() else None
    beside, file = _locked_part(target.parent, 0o666 if before is None else 0o600)
    with file:
        try:
            yield file
            file.flush()
            if before is not None:
                _take_over(file.fileno(), target, before)
            os.fsync(file.fileno())  # on the disk before it replaces an older file
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)


def _remove_left_over(folder: Path) -> None:
    """Remove what exports that were killed have left. A folder that cannot be listed, or a disk without locks, keeps
    it."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PART.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    _remove_unless_locked(Path(entry.path))


def _remove_unless_locked(part: Path) -> None:
    # Of this user alone, and opened for writing, which a lock on NFS asks for. No link is followed, no pipe waited for.
    with os.fdopen(os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if os.fstat(file.fileno()).st_uid == os.geteuid():
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def _locked_part(folder: Path, mode: int) -> tuple[Path, BinaryIO]:
    """A new file with a lock on it. Its name is random, so that nobody can put a link to another file there."""
    while True:
        part = folder / f".kvjobs-{secrets.token_hex(8)}.part"
        file = os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode), "wb")
        with suppress(OSError):  # a disk without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_nlink:
            return part, file
        file.close()  # another export removed it before it was locked


def _take_over(file: int, target: Path, before: os.stat_result) -> None:
    """Give an open file the owner, the group and the permissions of the one that it replaces. Where the group cannot be
    given, its members get no more than everybody."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    for user, group in ((before.st_uid, before.st_gid), (-1, before.st_gid)):
        with suppress(OSError):
            os.fchown(file, user, group)
            break
    if os.fstat(file).st_gid != before.st_gid:
        mode = mode & 0o707 | (mode & 0o007) << 3 & mode
    os.fchmod(file, mode)
    with suppress(OSError):  # no list of further users and groups, or a disk without such lists
        os.setxattr(file, _ACL, os.getxattr(target, _ACL))
