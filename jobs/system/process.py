"""The identity of a process, and what the kernel's control groups (cgroups) leave to it: a container's share of the
cores and the memory.

A pid alone is not enough: it holds on one machine, and other processes get it later. A limit of a group holds for all
groups below it, so the smallest along the path counts. Version 1 has a tree of groups for each controller, version 2
one tree for all; a machine may have both. `root`, for tests: where /proc and the mounted groups are looked for.
"""

import functools
import math
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process: the boot of its machine, its pid, and when it started (clock ticks since boot)."""

    machine: str  # empty: unknown
    pid: int
    started: float  # 0: unknown

    @classmethod
    def current(cls) -> "ProcessId":
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
    """How many cores this process may use: the cores of its affinity, or fewer where a control group limits its time.

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


ROOT = Path("/")


def cpu_quota(root: Path = ROOT) -> float:
    """The processor time that this process and the others of its groups may use together, in cores; infinity where
    there is no limit."""
    return min(map(_quota, _groups("cpu", root)), default=math.inf)


def memory_limit(root: Path = ROOT) -> float:
    """The bytes that this process and the others of its groups may use together; infinity where there is no limit."""
    return min((limit for limit, _ in _memory(root)), default=math.inf)


def free_memory(root: Path = ROOT) -> float:
    """The bytes of `memory_limit` that are not used yet."""
    return min((limit - used for limit, used in _memory(root)), default=math.inf)


def _quota(group: Path) -> float:
    with suppress(OSError, ValueError, ZeroDivisionError):  # version 2; "max 100000": no limit
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):  # version 1; -1: no limit
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    return math.inf


def _memory(root: Path) -> Iterator[tuple[float, float]]:
    """Limit and use of each group that limits the memory. (Where there is no limit, version 1 has 2^63.)"""
    for group in _groups("memory", root):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            with suppress(OSError, ValueError):
                yield float(int((group / limit).read_text())), float(int((group / used).read_text()))


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """The groups of this process, from its own to the outermost that is visible, in each tree that may have the
    controller."""
    with suppress(OSError):
        joined = [line.split(":", 2)[1:] for line in (root / "proc/self/cgroup").read_text().splitlines()]
        for line in (root / "proc/self/mountinfo").read_text().splitlines():
            mount, _, kind = line.partition(" - ")
            mounted, mount_point = mount.split()[3:5]  # the group that lies at the mount point, and the mount point
            for controllers, path in joined:
                if _is_tree(kind, controllers, controller):
                    yield from _along(path, mounted, root / mount_point.lstrip("/"))


def _is_tree(kind: str, controllers: str, controller: str) -> bool:
    """Whether a mount of this kind (type, device, options) has the groups of a line of /proc/self/cgroup, and those may
    limit what the controller controls."""
    version, _, options = kind.split(maxsplit=2)
    if version == "cgroup2":
        return not controllers
    return version == "cgroup" and controller in options.split(",") and controller in controllers.split(",")


def _along(path: str, mounted: str, mount_point: Path) -> Iterator[Path]:
    """The folders of a group and of those above it, below the mount point. A group outside of what is mounted there (a
    container that does not see its own path) leaves the mounted one."""
    is_inside = f"{path}/".startswith(f"{mounted.rstrip('/')}/") and ".." not in path.split("/")
    own = mount_point / path.removeprefix(mounted.rstrip("/")).lstrip("/") if is_inside else mount_point
    yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(mount_point))
