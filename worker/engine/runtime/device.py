"""What `--device` means: cpu, or cuda:N where onnxruntime can use it. Opens nothing: sessions do that."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from jobs.errors import SpecError
from jobs.process import available_cores
from jobs.queues import CPU

Provider = str | tuple[str, dict[str, str]]  # a name, and options that only it knows
CPU_PROVIDER, CUDA_PROVIDER = "CPUExecutionProvider", "CUDAExecutionProvider"
GPU_FILES = "/dev/nvidiactl", "/dev/dxg"  # of the driver; the second under Windows' Linux
_ASK = "import onnxruntime; print(*onnxruntime.get_available_providers())"


@dataclass(frozen=True, slots=True)
class Device:
    """Where the first of some providers computes, in onnxruntime's words."""

    kind: str  # cpu | cuda
    number: int

    @classmethod
    def of(cls, providers: Sequence[Provider]) -> Self:
        first = providers[0]
        name, options = (first, {}) if isinstance(first, str) else first
        return cls("cuda", int(options.get("device_id", "0"))) if name == CUDA_PROVIDER else cls("cpu", 0)


def check_device(name: str) -> str:
    """The device; raise SpecError where there is none of that name, or nothing here that could use it."""
    if name == CPU:
        return name
    if not re.fullmatch(r"cuda:\d+", name):
        raise SpecError(f"there is no device {name!r}; it can be cpu, or cuda:0 for the first GPU")
    # In another process: the parent of a worker never loads onnxruntime.
    asked = subprocess.run([sys.executable, "-P", "-c", _ASK], capture_output=True, text=True, check=False)
    if CUDA_PROVIDER not in asked.stdout.split():
        raise SpecError(
            f"the installed onnxruntime cannot use {name}; run: pip uninstall onnxruntime && "
            "pip install 'onnxruntime-gpu[cuda,cudnn]'"
        )
    return name


def device_for(queue: str) -> str:
    """What a worker needs to serve the jobs of a queue; raise SpecError where this machine has nothing of the kind."""
    if queue == CPU:
        return CPU
    if not any(map(os.path.exists, GPU_FILES)):
        raise SpecError("this machine shows no NVIDIA GPU")
    return check_device("cuda:0")


def provider_name(device: str) -> str:
    """What the device runs on, as onnxruntime calls it."""
    return CPU_PROVIDER if device == CPU else CUDA_PROVIDER


def providers(device: str) -> tuple[Provider, ...]:
    """As a session takes them, best first."""
    if device == CPU:
        return (CPU_PROVIDER,)
    options = {
        "device_id": device.removeprefix("cuda:"),
        # What is asked for, and not the next power of two: slots are large, and asked for seldom.
        "arena_extend_strategy": "kSameAsRequested",
        # Products of float32 in float32. By default their factors are rounded to 10 bits, and ids may differ.
        "use_tf32": "0",
    }
    return ((CUDA_PROVIDER, options), CPU_PROVIDER)


def lanes_of(device: str, asked: int) -> int:
    """How many lanes a worker has: as many as were asked for; if none were (0), one a core, or one for a GPU.

    A GPU runs one step after another whoever asks, and each lane has slots of its own to hold there.
    """
    if asked:
        return asked
    return available_cores() if device == CPU else 1
