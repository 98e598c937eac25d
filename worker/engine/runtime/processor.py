"""The processor of this machine, for a report of what was measured on it."""

import platform
from pathlib import Path

from jobs.formatting import counted
from jobs.process import available_cores


def processor_name() -> str:
    """Its name, and how many cores this process may use: `AMD EPYC 7763 64-Core Processor, 2 cores`."""
    name = _name(Path("/proc/cpuinfo")) or platform.processor() or platform.machine() or "unknown processor"
    return f"{name}, {counted(available_cores(), 'core')}"


def _name(cpuinfo: Path) -> str:
    """The name of the first core; empty where there is no such file, or the processor (ARM) has no name there."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next(
        (value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == "model name"), ""
    )
