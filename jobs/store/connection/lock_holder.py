"""Which process holds the write lock of a SQLite file, as the kernel tells it (/proc/locks).

The file is not opened for it: where a process closes a file, it loses all locks that its SQLite has on it.
"""

import os
from contextlib import suppress
from pathlib import Path

from jobs.system.process import is_stopped
from jobs.text.formatting import visible

LOCKS = Path("/proc/locks")
# The bytes that a writer locks (sqlite.org/walformat.html#locks; lockingv3.html): one of the file -shm, and in the file
# itself the bytes that a program with an exclusive lock holds.
WAL_WRITER, EXCLUSIVE = (120, 120), (0x40000000, 0x400001FF)
LONGEST_NAME = 60


def lock_holder(file: Path) -> int | None:
    """The pid of the process that holds the lock; None where there is none, or it cannot be known: the process is
    another container's, or this one's."""
    for locked_file, (first, last) in ((file.with_name(f"{file.name}-shm"), WAL_WRITER), (file, EXCLUSIVE)):
        with suppress(OSError, ValueError):
            status = locked_file.stat()
            for line in LOCKS.read_text().splitlines():
                # 2: POSIX  ADVISORY  WRITE 17181 fe:00:2277548 120 120 (with -> after the number: it waits)
                fields = line.split()
                if fields[1:4:2] != ["POSIX", "WRITE"] or int(fields[5].rpartition(":")[2]) != status.st_ino:
                    continue
                begin, end = int(fields[6]), int(fields[7].replace("EOF", str(last)))
                pid = int(fields[4])
                if begin <= last and end >= first and pid != os.getpid() and _has_open(pid, status, fields[5]):
                    return pid
    return None


def words_for(pid: int) -> str:
    """The process by its number and its command, and what can be done; to go behind `is locked by`."""
    name = _command(pid)
    which = f"process {pid} ({name})" if name else f"process {pid}"
    if not is_stopped(pid):
        return f"{which}; wait until it has finished, or end it, and try again"
    return f"{which}, which is stopped; to let it go on: kill -CONT {pid}; to end it: kill -9 {pid}"


def _has_open(pid: int, status: os.stat_result, device_and_inode: str) -> bool:
    """Whether the process has this very file open: another file system may have a file of the same number. (btrfs gives
    other numbers of devices to `stat` than to /proc/locks.)"""
    major, minor, _ = device_and_inode.split(":")
    if os.makedev(int(major, 16), int(minor, 16)) == status.st_dev:
        return True
    with suppress(OSError):  # another user's process
        return any(os.path.samestat(status, handle.stat()) for handle in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _command(pid: int) -> str:
    """What runs in the process, as its command line names it, without the interpreter and what belongs to that."""
    with suppress(OSError):
        words = [
            word for word in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0") if word
        ]
        is_python = bool(words) and Path(words[0]).name.startswith("python")
        shown = [word for word in words[is_python:] if not (is_python and word in ("-P", "-m"))]
        # A worker's processes have their settings as an argument.
        text = (
            " ".join([Path(shown[0]).name, *(word for word in shown[1:] if not word.startswith("{"))]) if shown else ""
        )
        return visible(text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}...")
    return ""
