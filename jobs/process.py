"""Which process a process number means: numbers are given out again, and mean something on one machine only."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, beyond doubt: the boot of a machine, the number, and when it started (clock ticks since boot)."""

    machine: str
    pid: int
    started: float

    @classmethod
    def mine(cls) -> "ProcessId":
        """Of the process that asks."""
        return cls(this_machine(), os.getpid(), _started(os.getpid()) or 0.0)

    def is_dead(self) -> bool:
        """Whether it is known to have ended; False also where nothing can be known (another machine, no /proc)."""
        if self.machine != this_machine() or not self.started:
            return False
        return _started(self.pid) != self.started


def this_machine() -> str:
    """This boot of this machine, and the namespace in which its process numbers count (a container has its own)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _started(pid: int) -> float | None:
    """Field 22 of /proc/PID/stat, counted behind the name, which may hold anything; None for a dead process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else float(fields[19])
