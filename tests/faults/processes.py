"""Processes: the descendants of one, the one that has loaded the model, and killing all of a trial."""

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

HELPERS = (b"resource_tracker", b"semaphore_tracker")  # Python's own, beside a spawned child


@dataclass(frozen=True, slots=True)
class Command:
    """A command of kvjobs that was started, and its descendants."""

    process: "subprocess.Popen[bytes]"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def child(self) -> int | None:
        """The worker's child: the process that has loaded onnxruntime, else the first that will."""
        below = [pid for pid in descendants(self.pid) if not any(name in command_line(pid) for name in HELPERS)]
        return next((pid for pid in below if has_runtime(pid)), below[0] if below else None)

    def working_child(self) -> int | None:
        """The process that has loaded onnxruntime."""
        return next(filter(has_runtime, descendants(self.pid)), None)

    def send(self, number: int) -> None:
        """A signal to the command itself."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def terminate(self, timeout: float = 60) -> int:
        """SIGTERM, and wait for the end; the exit code."""
        self.send(signal.SIGTERM)
        return self.process.wait(timeout=timeout)


def descendants(pid: int) -> list[int]:
    """The processes below one, nearest first."""
    found: list[int] = []
    generation = [pid]
    while generation:
        generation = [child for parent in generation for child in children(parent)]
        found += generation
    return found


def children(pid: int) -> list[int]:
    """The child processes of a process; empty if it is gone."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def command_line(pid: int) -> bytes:
    """The command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def has_runtime(pid: int) -> bool:
    """Whether onnxruntime is loaded into a process."""
    try:
        return "onnxruntime" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def with_environment(entry: str) -> list[int]:
    """The processes that have this entry (NAME=value) in their environment: all that inherited it, also when their
    parent is dead."""
    wanted = entry.encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def kill_all(entry: str) -> None:
    """SIGKILL to all processes `with_environment`, until none is left: one of them may be starting another."""
    for _ in range(100):
        alive = [pid for pid in with_environment(entry) if not _is_zombie(pid)]
        if not alive:
            return
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    raise RuntimeError(f"processes that cannot be killed: {alive}")


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    return True
