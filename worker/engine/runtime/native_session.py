"""Opening a native graph as a session: on the compiled kernels, with int8 products that are exact on this processor."""

from collections.abc import Sequence
from pathlib import Path

import onnxruntime

from worker.engine.runtime.device import CPU_PROVIDER, Device, Provider
from worker.engine.runtime.int8_probe import Int8, exact_int8
from worker.engine.runtime.session import open_session
from worker.graphs.fusion.fuse import fused
from worker.graphs.precision import Precision
from worker.graphs.unsigned_weights import with_unsigned_weights
from worker.kernels.compiled import compiled_kernels


def open_native_session(
    file: Path,
    precision: Precision,
    *,
    threads: int = 1,
    providers: Sequence[Provider] = (CPU_PROVIDER,),
    graph: bytes | None = None,
) -> onnxruntime.InferenceSession:
    """Open a native graph, as `open_session` does. `precision`: of the graph's products."""
    kernels = None
    if Device.of(providers).kind == "cpu" and file.is_file():  # else `open_session` says what is missing
        kernels = compiled_kernels()
        if precision is Precision.INT8 and exact_int8() is Int8.UNSIGNED:
            graph = with_unsigned_weights(file.read_bytes() if graph is None else graph)
        if kernels is not None:
            graph = fused(file.read_bytes() if graph is None else graph)
    operators = None if kernels is None else kernels.file
    return open_session(file, threads=threads, providers=providers, graph=graph, operators=operators)
