"""
Whether attention to keys and values in int8 is right with this onnxruntime, on this processor.

onnxruntime 1.27.0 gives other results than keys and values multiplied by their scales (1.28.0 to 1.32.0 give the same),
and each processor has a kernel of its own.
"""

import functools

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from worker.graphs.graph_builder import CONTRIB, GraphBuilder, Shape
from worker.graphs.seq2seq.quantized_kv import ATTRIBUTES, INT8
from worker.graphs.weights import WrittenWeights

_HEADS, _HEAD_SIZE, _CAPACITY = 2, 16, 24
_LAST = np.array([23, 3, 0, 16], np.int32)  # the position of the new token in each row
_SHAPE: Shape = ["R", _HEADS, _CAPACITY, _HEAD_SIZE]
_SCALE_SHAPE = (1, _HEADS, 1, _HEAD_SIZE)


@functools.cache
def attends_to_int8() -> bool:
    """Compare a step of random rows with numpy, once per process; takes a few milliseconds."""
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
