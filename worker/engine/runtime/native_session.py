"""Opening a native graph as a session: on the compiled kernels, with int8 products that are exact on this processor."""

import enum
import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from jobs.errors import ModelError
from worker.engine.runtime.device import CPU_PROVIDER, Device, Provider
from worker.engine.runtime.session import open_session
from worker.graphs.fusion.fuse import fused
from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.matrix_products import quantized_product, store_quantized
from worker.graphs.precision import Precision
from worker.graphs.unsigned_weights import with_unsigned_weights
from worker.graphs.weights import WeightsFile
from worker.kernels.compiled import compiled_kernels
from worker.models.half_precision import needs_half, runs_on_gpu
from worker.models.manifest import Manifest

_WIDTH = 64  # K and N


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


class Int8(enum.StrEnum):
    """The type of the weights with which products are exact.

    Without VNNI, AVX2 and AVX-512 add two products of uint8 and int8 in 16 bits and saturate: 255 x 127 + 255 x 127
    becomes 32,767. (onnxruntime's docs/performance/model-optimizations/quantization.md, "when and why do I need to try
    U8U8".) Native int8 graphs use the whole range, so such a processor would compute other numbers; with their weights
    in uint8 it computes the same ones (`worker.graphs.unsigned_weights`).
    """

    SIGNED = "signed"  # as the files have them
    UNSIGNED = "unsigned"
    NEITHER = "neither"


@functools.cache
def exact_int8() -> Int8:
    """Multiply the largest numbers that int8 has, once per process; takes a few milliseconds."""
    with tempfile.TemporaryDirectory() as name:
        with WeightsFile(Path(name, "weights.data")) as store:
            net = GraphBuilder("saturation", store)
            x = net.input("x", np.uint8, ["M", _WIDTH])
            weight = store_quantized(net, "largest", lambda: np.ones((_WIDTH, _WIDTH), np.float32))
            y = quantized_product(net, x, weight)
            net.output(y, "y", np.float32, ["M", _WIDTH])
        signed = net.model().SerializeToString()
        for kind, graph in ((Int8.SIGNED, signed), (Int8.UNSIGNED, with_unsigned_weights(signed))):
            file = Path(name, f"{kind}.onnx")
            file.write_bytes(graph)
            session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
            sums = session.run(["y"], {"x": np.full((2, _WIDTH), 255, np.uint8)})[0]
            if np.allclose(sums, (255 - 128) * _WIDTH, rtol=1e-4):
                return kind
    return Int8.NEITHER


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
