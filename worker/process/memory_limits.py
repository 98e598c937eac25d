"""How much memory a process may take, and which process goes first when there is none left.

RLIMIT_DATA and not RLIMIT_AS: the address space of a process with onnxruntime is 2.5 times what it uses (360 MB to
145 MB with the bundled model), and a GPU's driver reserves far more than there is. An allocation beyond the limit is a
MemoryError, or a "Failed to allocate memory" of onnxruntime: an error of one document, not a machine that swaps.
"""

import contextlib
import resource
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def limit_to_whole() -> None:
    """Take no more than the machine (or the container) has: for a process that lives long. What is free at its start
    says little about later."""
    _limit(min(_meminfo("MemTotal"), _container()[0]))


def limit_to_free() -> None:
    """Take no more than is free now: for a process that lives for a few documents."""
    limit, used = _container()
    _limit(_data_size() + min(_meminfo("MemAvailable"), limit - used))


def go_first(score: int) -> None:
    """Tell the kernel to kill this process before others (1000: before all) where memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(score))


def _limit(num_bytes: float) -> None:
    if 0 < num_bytes < float("inf"):
        _, highest = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = int(num_bytes)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(
                resource.RLIMIT_DATA,
                (wanted if highest == resource.RLIM_INFINITY else min(wanted, highest), highest),
            )


def _meminfo(name: str) -> float:
    return _field(Path("/proc/meminfo"), name)


def _data_size() -> float:
    size = _field(Path("/proc/self/status"), "VmData")
    return 0.0 if size == float("inf") else size


def _field(file: Path, name: str) -> float:
    """`name: 123 kB` in bytes; infinite where nothing is known."""
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024.0
    return float("inf")


def _container() -> tuple[float, float]:
    """The limit of our control group and what is used of it, in bytes; infinite and 0 where there is no limit."""
    candidates = [
        (CGROUPS / "memory.max", CGROUPS / "memory.current"),  # version 2, inside a container
        (CGROUPS / "memory" / "memory.limit_in_bytes", CGROUPS / "memory" / "memory.usage_in_bytes"),  # version 1
    ]
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/"):  # version 2, a service of systemd
                own = CGROUPS / line.removeprefix("0::/")
                candidates.insert(0, (own / "memory.max", own / "memory.current"))
    for limit, used in candidates:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            return float(int(limit.read_text())), float(int(used.read_text()))
    return float("inf"), 0.0
