"""What the kernel's control groups (cgroups) leave to this process: a container's share of the cores and the memory.

A limit of a group holds for all groups below it, so the smallest along the path counts. Version 1 has a tree of groups
for each controller, version 2 one tree for all; a machine may have both. `root`, for tests: where /proc and the mounted
groups are looked for.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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
            mounted, place = mount.split()[3:5]  # the group that lies at the mount point, and the mount point
            for controllers, path in joined:
                if _is_tree(kind, controllers, controller):
                    yield from _along(path, mounted, root / place.lstrip("/"))


def _is_tree(kind: str, controllers: str, controller: str) -> bool:
    """Whether a mount of this kind (type, device, options) has the groups of a line of /proc/self/cgroup, and those may
    limit what the controller controls."""
    version, _, options = kind.split(maxsplit=2)
    if version == "cgroup2":
        return not controllers
    return version == "cgroup" and controller in options.split(",") and controller in controllers.split(",")


def _along(path: str, mounted: str, place: Path) -> Iterator[Path]:
    """The folders of a group and of those above it, below the mount point. A group outside of what is mounted there (a
    container that does not see its own path) leaves the mounted one."""
    is_inside = f"{path}/".startswith(f"{mounted.rstrip('/')}/") and ".." not in path.split("/")
    own = place / path.removeprefix(mounted.rstrip("/")).lstrip("/") if is_inside else place
    yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(place))
