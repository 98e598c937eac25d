"""Opening a native graph as a session: on the compiled kernels, with int8 products that are exact on this processor."""

import enum
import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.engine.runtime.device import CPU_PROVIDER, Device, Provider
from worker.engine.runtime.session import open_session
from worker.graphs.fusion.fuse import fused
from worker.graphs.graph_builder import CONTRIB, GraphBuilder, Shape
from worker.graphs.matrix_products import quantized_product, store_quantized
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.quantized_kv import ATTRIBUTES, INT8
from worker.graphs.unsigned_weights import with_unsigned_weights
from worker.graphs.weights import WeightsFile, WrittenWeights
from worker.kernels.compiled import compiled_kernels
from worker.models.half_precision import needs_half, runs_on_gpu
from worker.models.manifest import Manifest

_WIDTH = 64  # K and N
_HEADS, _HEAD_SIZE, _CAPACITY = 2, 16, 24
_LAST = np.array([23, 3, 0, 16], np.int32)  # the position of the new token in each row
_SHAPE: Shape = ["R", _HEADS, _CAPACITY, _HEAD_SIZE]
_SCALE_SHAPE = (1, _HEADS, 1, _HEAD_SIZE)


def open_native_session(
    file: Path,
    precision: Precision,
    *,
    threads: int = 1,
    providers: Sequence[Provider] = (CPU_PROVIDER,),
    graph: bytes | None = None,
) -> onnxruntime.InferenceSession:
    """Open a native graph, as `open_session` does. `precision`: of the graph's products."""
    operators = None
    if Device.of(providers).kind == "cpu" and file.is_file():  # else `open_session` says what is missing
        kernels = compiled_kernels()
        if precision is Precision.INT8 and exact_int8() is Int8.UNSIGNED:
            graph = with_unsigned_weights(file.read_bytes() if graph is None else graph)
        if kernels is not None and kernels.fuses:
            graph, operators = fused(file.read_bytes() if graph is None else graph), kernels.file
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


@functools.cache
def attends_to_int8() -> bool:
    """Whether attention to keys and values in int8 is right with this onnxruntime, on this processor: a step of random
    rows compared with numpy, once per process; takes a few milliseconds.

    onnxruntime 1.27.0 gives other results than keys and values multiplied by their scales (1.28.0 to 1.32.0 give the
    same), and each processor has a kernel of its own.
    """
    rng = np.random.default_rng(0)
    rows, width = len(_LAST), _HEADS * _HEAD_SIZE
    key, value = (rng.integers(-127, 128, (rows, _HEADS, _CAPACITY, _HEAD_SIZE)).astype(np.int8) for _ in range(2))
    key_scale, value_scale = (rng.uniform(0.01, 0.05, _SCALE_SHAPE).astype(np.float32) for _ in range(2))
    qkv = rng.normal(size=(rows, 1, 3 * width)).astype(np.float32)
    feed = {"qkv": qkv, "key": key, "value": value, "key_scale": key_scale, "value_scale": value_scale, "last": _LAST}
    session = onnxruntime.InferenceSession(_graph(), providers=["CPUExecutionProvider"])
    attended = session.run(["attended"], feed | {"length": np.array([_CAPACITY], np.int32)})[0]

    q, new_key, new_value = qkv.reshape(rows, 3, _HEADS, _HEAD_SIZE).swapaxes(0, 1)
    for row, last in enumerate(_LAST):
        key[row, :, last] = _quantized(new_key[row], key_scale)
        value[row, :, last] = _quantized(new_value[row], value_scale)
    scores = np.einsum("rnh,rnth->rnt", q, key * key_scale) / np.sqrt(_HEAD_SIZE)
    scores[np.broadcast_to(np.arange(_CAPACITY) > _LAST[:, None, None], scores.shape)] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    wanted = np.einsum("rnt,rnth->rnh", weights, value * value_scale).reshape(rows, 1, width)
    return np.allclose(attended, wanted, rtol=0, atol=1e-4)


def _quantized(new: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.int8]:
    rounded: NDArray[np.int8] = np.clip(np.rint(new / scale[0, :, 0]), -128, 127).astype(np.int8)
    return rounded


def _graph() -> bytes:
    net = GraphBuilder("attention to int8", WrittenWeights({}))
    qkv = net.input("qkv", np.float32, ["R", 1, 3 * _HEADS * _HEAD_SIZE])
    past = [net.input(name, INT8, _SHAPE) for name in ("key", "value")]
    lengths = [net.input("last", np.int32, ["R"]), net.input("length", np.int32, [1])]
    scales = [net.input(name, np.float32, _SCALE_SHAPE) for name in ("key_scale", "value_scale")]
    net.ops(
        "GroupQueryAttention", qkv, "", "", *past, *lengths, "", "", "", "", "", *scales,
        outputs=["attended", "new_key", "new_value"], domain=CONTRIB,
        num_heads=_HEADS, kv_num_heads=_HEADS, **ATTRIBUTES,
    )  # fmt: skip
    net.output("attended", "attended", np.float32, ["R", 1, _HEADS * _HEAD_SIZE])
    graph: bytes = net.model().SerializeToString()
    return graph
