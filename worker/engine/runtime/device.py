"""What `--device` means: cpu, or cuda:N where onnxruntime can use it.

Knows: names of devices and providers. Does not load onnxruntime: the parent process of a worker asks here.
"""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from jobs.errors import SpecError
from jobs.queues import CPU
from jobs.system.process import available_cores
from jobs.text.formatting import counted

Provider = str | tuple[str, dict[str, str]]  # of onnxruntime: a name, or a name and its options
CPU_PROVIDER, CUDA_PROVIDER = "CPUExecutionProvider", "CUDAExecutionProvider"
GPU_FILES = "/dev/nvidiactl", "/dev/dxg"  # device files of the driver; the second in WSL
_LIST_PROVIDERS = "import onnxruntime; print(*onnxruntime.get_available_providers())"


@dataclass(frozen=True, slots=True)
class Device:
    """Where a session computes, by the names that onnxruntime gives to memory."""

    kind: str  # cpu | cuda
    number: int

    @classmethod
    def of(cls, providers: Sequence[Provider]) -> Self:
        """The device of the first provider."""
        first = providers[0]
        name, options = (first, {}) if isinstance(first, str) else first
        return cls("cuda", int(options.get("device_id", "0"))) if name == CUDA_PROVIDER else cls("cpu", 0)


def check_device(name: str) -> str:
    """The name itself; raise SpecError for a name that is not a device, or one that onnxruntime cannot use here."""
    if name == CPU:
        return name
    if not re.fullmatch(r"cuda:\d+", name):
        raise SpecError(f"there is no device {name!r}; it can be cpu, or cuda:0 for the first GPU")
    # Asked in another process, because the parent of a worker never loads onnxruntime.
    listed = subprocess.run([sys.executable, "-P", "-c", _LIST_PROVIDERS], capture_output=True, text=True, check=False)
    if CUDA_PROVIDER not in listed.stdout.split():
        raise SpecError(
            f"the installed onnxruntime cannot use {name}; run: pip uninstall onnxruntime && "
            "pip install 'onnxruntime-gpu[cuda,cudnn]'"
        )
    return name


def device_for(queue: str) -> str:
    """The device that serves the jobs of a queue; raise SpecError where this machine has none."""
    if queue == CPU:
        return CPU
    if not any(map(os.path.exists, GPU_FILES)):
        raise SpecError("this machine shows no NVIDIA GPU")
    return check_device("cuda:0")


def provider_name(device: str) -> str:
    """The name of the device's provider."""
    return CPU_PROVIDER if device == CPU else CUDA_PROVIDER


def providers(device: str) -> tuple[Provider, ...]:
    """The providers of a session on the device, the preferred one first."""
    if device == CPU:
        return (CPU_PROVIDER,)
    options = {
        "device_id": device.removeprefix("cuda:"),
        # Allocate what is requested, not the next power of two: slots are large and allocated seldom.
        "arena_extend_strategy": "kSameAsRequested",
        # Multiply float32 in float32. By default factors are rounded to 10 bits (TF32), and ids may differ.
        "use_tf32": "0",
    }
    return ((CUDA_PROVIDER, options), CPU_PROVIDER)


def lanes_of(device: str, wanted: int) -> int:
    """How many lanes a worker has: `wanted`, or where that is 0 one per core, and one on a GPU.

    A GPU runs one step after the other, and every lane takes memory there for its slots.
    """
    if wanted:
        return wanted
    return available_cores() if device == CPU else 1


def processor_name() -> str:
    """The name of this machine's processor, and how many cores this process may use: `AMD EPYC 7763, 2 cores`."""
    name = _name_in(Path("/proc/cpuinfo")) or platform.processor() or platform.machine() or "unknown processor"
    return f"{name}, {counted(available_cores(), 'core')}"


def _name_in(cpuinfo: Path) -> str:
    """The name of the first core; empty where there is no such file, or the processor (ARM) has no name there."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next(
        (value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == "model name"), ""
    )
