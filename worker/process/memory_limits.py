"""How much memory this process may allocate, and which process the kernel kills first when memory runs out.

RLIMIT_DATA and not RLIMIT_AS: the address space of a process with onnxruntime is 2.5 times the memory that it uses
(360 MB to 145 MB with the bundled model), and a GPU's driver reserves far more than the machine has. An allocation
beyond the limit raises MemoryError, or "Failed to allocate memory" in onnxruntime: one document fails, and the machine
does not swap.
"""

import contextlib
import resource
from pathlib import Path

from jobs.system.process import ROOT, free_memory, memory_limit


def limit_to_machine(root: Path = ROOT) -> None:
    """Limit this process to the memory of the machine or the container. For a process that lives long: the memory
    that is free at its start says little about the memory that will be free later."""
    _limit(min(_meminfo("MemTotal"), memory_limit(root)))


def limit_to_free(root: Path = ROOT) -> None:
    """Limit this process to the memory that is free now. For a process that handles only a few documents."""
    _limit(_data_size() + min(_meminfo("MemAvailable"), free_memory(root)))


def usable_memory(root: Path = ROOT) -> float:
    """The bytes that this process could still use: what the system counts as available, within the container's limit.
    Cached files are not counted as used, which a control group does."""
    return min(_meminfo("MemAvailable"), memory_limit(root))


def set_oom_score(score: int) -> None:
    """Where memory runs out, the kernel kills processes with a higher score (at most 1000) first."""
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
    """The number in the line `name: 123 kB`, in bytes; infinity where there is none."""
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024.0
    return float("inf")
