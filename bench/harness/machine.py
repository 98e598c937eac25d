"""What a report says about the machine it was made on."""

import os
from pathlib import Path

from worker.engine.runtime.device import processor_name


def cpu_name() -> str:
    """The processor's name, and the number of cores that this process may use."""
    return processor_name()


def cpu_has(flag: str) -> bool:
    """Whether the processor lists an instruction set, such as avx512f or amx_int8."""
    return flag in _cpu_fields().get("flags", "").split()


def cpu_is_intel() -> bool:
    """Whether it is a processor of Intel."""
    return _cpu_fields().get("vendor_id") == "GenuineIntel"


def load_average() -> float:
    """The load average of the last minute: other processes, and this one before."""
    return os.getloadavg()[0]


def busy_s() -> float:
    """Seconds of processor time of all processes so far, and what the host took from a virtual machine."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _waiting, interrupts, soft, stolen = map(int, file.readline().split()[1:9])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def _cpu_fields() -> dict[str, str]:
    """The fields of the first core in /proc/cpuinfo; empty without such a file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
