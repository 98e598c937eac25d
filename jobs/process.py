"""The identity of a process. A pid alone is not enough: it holds on one machine, and other processes get it later."""

import functools
import math
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from jobs.control_groups import cpu_quota


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process: the boot of its machine, its pid, and when it started (clock ticks since boot)."""

    machine: str  # empty: unknown
    pid: int
    started: float  # 0: unknown

    @classmethod
    def current(cls) -> "ProcessId":
        """The identity of this process."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> "ProcessId":
        """The identity of the process of this machine that has the pid now."""
        stat = _stat(pid)
        return cls(this_machine(), pid, float(stat[STARTED]) if stat else 0.0)

    def is_dead(self) -> bool:
        """Whether it has certainly ended. False where that cannot be known: it is on another machine, this machine
        cannot be identified, or /proc hides it (hidepid, ProtectProc) and its pid is in use."""
        if not self.machine or self.machine != this_machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True  # /proc may hide a process, but `kill` finds every process that exists
        except PermissionError:
            pass  # another user's
        stat = _stat(self.pid)
        if stat is None:
            return False
        return stat[STATE] in ENDED or bool(self.started and float(stat[STARTED]) != self.started)


@functools.cache
def this_machine() -> str:
    """An id of this boot of this machine, with the namespaces of its pids and of its times since boot (a container has
    its own). Empty where it cannot be known; an empty id matches nothing, itself included."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}/{_time_namespace()}"
    except OSError:
        return ""


def is_here(machine: str, host: str) -> bool:
    """Whether a process of `machine` is on this machine. Host names decide where an id is unknown."""
    here = this_machine()
    return machine == here if machine and here else host == socket.gethostname()


def how_it_ended(code: int) -> str:
    """An exit code of `subprocess` in words; below 0 it is a signal."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name} (signal {-code})"
    except ValueError:
        return f"was killed by signal {-code}"


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process (SIGSTOP, Ctrl-Z). One that a debugger holds is not meant."""
    stat = _stat(pid)
    return stat is not None and stat[STATE] == STOPPED


def parent_of(pid: int) -> int | None:
    """The pid of its parent; None where that cannot be known."""
    stat = _stat(pid)
    return int(stat[PARENT]) if stat else None


def available_cores() -> int:
    """How many cores this process may use: those of its affinity, or fewer where a control group limits its time.

    A part of a core counts as one: with a quota of 1.5 two lanes use all of it and one lane leaves a third unused.
    """
    assigned = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(assigned, math.ceil(min(cpu_quota(), assigned))))


def _time_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/time").readlink())
    except FileNotFoundError:
        return ""  # Linux before 5.6 has none


STATE, PARENT, STARTED = 0, 1, 19
STOPPED, ENDED = b"T", (b"Z", b"X")


def _stat(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat after the name (the second field, which may contain anything). None where it cannot
    be read: the process has ended or is hidden."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
