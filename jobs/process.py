"""Which process a process number means: numbers are given out again, and mean something on one machine only."""

import functools
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, beyond doubt: the boot of a machine, the number, and when it started (clock ticks since boot)."""

    machine: str  # empty: not known
    pid: int
    started: float  # 0: not known

    @classmethod
    def mine(cls) -> "ProcessId":
        """Of the process that asks."""
        stat = _stat(os.getpid())
        return cls(this_machine(), os.getpid(), float(stat[STARTED]) if stat else 0.0)

    def is_dead(self) -> bool:
        """Whether it has ended, beyond doubt. False also where nothing can be known: it is on another machine, nobody
        can tell which machine this is, or /proc hides it (hidepid, ProtectProc) and its number is in use."""
        if not self.machine or self.machine != this_machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True  # /proc may hide a process; the kernel itself does not deny one that lives
        except PermissionError:
            pass  # somebody else's
        stat = _stat(self.pid)
        if stat is None:
            return False
        return stat[STATE] in ENDED or bool(self.started and float(stat[STARTED]) != self.started)


@functools.cache
def this_machine() -> str:
    """This boot of this machine, and the namespaces in which its process numbers and its times since boot count (a
    container has its own). Empty where it cannot be known: then it is no other machine's, nor the same as itself."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}/{_time_namespace()}"
    except OSError:
        return ""


def is_here(machine: str, host: str) -> bool:
    """Whether a process of that machine is one of this. Where nobody can tell machines apart, names have to do."""
    mine = this_machine()
    return machine == mine if machine and mine else host == socket.gethostname()


def how_it_ended(code: int) -> str:
    """The exit code of a process in words, as `subprocess` gives it: below 0 it is a signal."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name} (signal {-code})"
    except ValueError:
        return f"was killed by signal {-code}"


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _time_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/time").readlink())
    except FileNotFoundError:
        return ""  # Linux before 5.6 has none


STATE, STARTED = 0, 19
ENDED = (b"Z", b"X")


def _stat(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the third on, counted behind the name, which may hold anything. None where it
    cannot be read: the process is gone, or hidden."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
