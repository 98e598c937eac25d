"""The precision of native graphs, and whether this machine computes it correctly."""

from collections.abc import Sequence
from pathlib import Path

from jobs.errors import ModelError
from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.int8_probe import Int8, exact_int8
from worker.graphs.precision import Precision
from worker.models.half_precision import needs_half, runs_on_gpu
from worker.models.manifest import Manifest


def native_precision(folder: Path, manifest: Manifest, providers: Sequence[Provider]) -> Precision:
    """The precision of the native graphs in `folder`; raise ModelError if the device cannot run them, or would
    compute wrong results."""
    if Device.of(providers).kind != "cpu" and not runs_on_gpu(manifest):
        raise ModelError(needs_half(folder.name, manifest))
    precision = Precision(manifest.precision or Precision.FP32)
    if precision is Precision.INT8 and exact_int8() is Int8.NEITHER:
        raise ModelError(
            f"{folder} is in int8, and onnxruntime computes no int8 product exactly on this processor, so every result "
            "would be wrong: add the model with --precision fp32"
        )
    return precision
