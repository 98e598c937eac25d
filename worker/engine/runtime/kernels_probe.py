"""
Whether the compiled kernels are right on this processor, before a graph relies on them.

They are compiled on the machine where kvjobs is installed, by whatever compiler is there.
"""

import functools

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from worker.graphs.graph_builder import IR_VERSION, OPSET
from worker.kernels.compiled import compiled_kernels
from worker.kernels.functions import Kernels
from worker.kernels.library import KERNELS

_ROWS, _HEADS, _HEAD_SIZE, _CAPACITY = 5, 2, 48, 9
_WIDTH = _HEADS * _HEAD_SIZE
_LAST = np.array([8, 0, 3, 7, 1], np.int32)  # the position of the new token of each row

Array = NDArray[np.float32]


@functools.cache
def trusted_kernels() -> Kernels | None:
    """The kernels of this process, if an attention and a norm of random rows are those of numpy; asked once per
    process, in a few milliseconds. None: there are none, or they are wrong."""
    kernels = compiled_kernels()
    return kernels if kernels is not None and _are_right(kernels) else None


def _are_right(kernels: Kernels) -> bool:
    rng = np.random.default_rng(0)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # a library that does not fit is an answer here, not a message
    try:
        options.register_custom_ops_library(str(kernels.file))
        session = onnxruntime.InferenceSession(_graph(), options, providers=["CPUExecutionProvider"])
    except Exception:  # onnxruntime has no common base class for what it raises
        return False
    key, value = rng.normal(size=(2, _ROWS, _HEADS, _CAPACITY, _HEAD_SIZE)).astype(np.float32)
    qkv = rng.normal(size=(_ROWS, 3 * _WIDTH)).astype(np.float32)
    x = rng.normal(size=(_ROWS, _WIDTH)).astype(np.float32)
    weight = rng.normal(size=_WIDTH).astype(np.float32)
    feed = {"qkv": qkv, "key": key, "value": value, "last": _LAST, "x": x, "weight": weight}
    attended, y, quantized, scales = session.run(["attended", "y", "quantized", "scales"], feed)

    wanted = _attended(qkv, key, value) + x
    wanted = (wanted - wanted.mean(axis=1, keepdims=True)) / wanted.std(axis=1, keepdims=True) * weight + weight
    back = (quantized.astype(np.float32) - 128) * scales
    return bool(
        np.allclose(attended, _attended(qkv, key, value), rtol=0, atol=1e-4)
        and np.allclose(y, wanted, rtol=0, atol=1e-4)
        and np.allclose(back, y, rtol=0, atol=0.51 * scales.max())
    )


def _attended(qkv: Array, key: Array, value: Array) -> Array:
    q, new_key, new_value = qkv.reshape(_ROWS, 3, _HEADS, _HEAD_SIZE).swapaxes(0, 1)
    key, value = key.copy(), value.copy()
    for row, last in enumerate(_LAST):
        key[row, :, last], value[row, :, last] = new_key[row], new_value[row]
    scores = np.einsum("rnh,rnth->rnt", q, key) / np.sqrt(_HEAD_SIZE)
    scores[np.broadcast_to(np.arange(_CAPACITY) > _LAST[:, None, None], scores.shape)] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    attended: Array = np.einsum("rnt,rnth->rnh", weights, value).reshape(_ROWS, _WIDTH)
    return attended


def _graph() -> bytes:
    cache = [_ROWS, _HEADS, _CAPACITY, _HEAD_SIZE]
    inputs = {"qkv": [_ROWS, 3 * _WIDTH], "key": cache, "value": cache, "x": [_ROWS, _WIDTH], "weight": [_WIDTH]}
    outputs = {"attended": [_ROWS, _WIDTH], "y": [_ROWS, _WIDTH], "scales": [_ROWS, 1]}
    attend = helper.make_node(
        "AttendToCache", ["qkv", "key", "value", "last"], ["attended", "new_key", "new_value"], domain=KERNELS,
        heads=_HEADS, beams=1, appends=1, scale=_HEAD_SIZE**-0.5,
    )  # fmt: skip
    finish = helper.make_node(
        "FinishRows", ["attended", "", "", "x", "weight", "weight"], ["y", "", "quantized", "scales"], domain=KERNELS,
        activation=0, norm=1, epsilon=0.0, lowest=0.0,
    )  # fmt: skip
    graph = helper.make_graph(
        [attend, finish],
        "kernels",
        [
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()),
            helper.make_tensor_value_info("last", TensorProto.INT32, [_ROWS]),
        ],
        [
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()),
            helper.make_tensor_value_info("quantized", TensorProto.UINT8, [_ROWS, _WIDTH]),
        ],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(KERNELS, 1)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()
    return model
