"""
Which of the compiled kernels give other results than numpy on this processor, before anything relies on them.

Small random arrays go through everything that is called: each operator, with the sizes of heads that have code of their
own, one query and four that share keys, in float32 and int8; the functions of a search; the moves of a cache.

Shapes: B sources · Q queries of each · N heads · T positions · H head size · M rows · V vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import NodeProto, helper

from worker.kernels.functions import Kernels
from worker.kernels.library import KERNELS
from worker.kernels.mixing import mix

Array = NDArray[Any]

_HEAD_SIZES = (32, 64, 128, 48)  # three that are constants in attention.c, and another
_HEADS, _CAPACITY = 2, 9
_LAST = np.array([8, 0, 3], np.int32)  # the position of the new token of each source
_BEAMS = 5  # four queries together, and one alone
_LENGTH = 6  # of a sentence whose tokens attend to each other
_SIZE = 75  # of a row: no number of lanes divides it
_MIXED_SIZE = 48  # of a row that is mixed: 3 segments of 16
_VOCABULARY = 150
_IR_VERSION, _OPSET = 8, 17  # that any onnxruntime reads
_RELU, _SILU, _LAYER_NORM, _RMS_NORM = 1, 2, 1, 2  # as in kernels.h


def wrong_kernels(kernels: Kernels) -> list[str]:
    """The names of kernels that give wrong results; all operators, if onnxruntime cannot load them. Takes some
    milliseconds."""
    rng = np.random.default_rng(0)
    wrong = _wrong_operators(kernels, [*_attention(rng), *_rows(rng)])
    for kernel in (_sum_powers, _best_continuations, _copy_rows, _lay_out):
        if not kernel(kernels, rng):
            wrong.append(kernel.__name__.strip("_"))
    return wrong


@dataclass(slots=True)
class _Case:
    """A node, its inputs and the outputs that it must give."""

    node: NodeProto  # outputs that are not compared have no name
    feed: dict[str, Array]
    wanted: dict[str, Array]  # of each output
    tolerance: dict[str, float] = field(default_factory=dict)  # where it is not 1e-4


def _wrong_operators(kernels: Kernels, cases: list[_Case]) -> list[str]:
    feed = {name: array for case in cases for name, array in case.feed.items()}
    wanted = {name: array for case in cases for name, array in case.wanted.items()}
    graph = helper.make_graph(
        [case.node for case in cases], "kernels", [*map(_info, feed.items())], [*map(_info, wanted.items())]
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(KERNELS, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # a library that does not fit is an answer here, not a message
    options.intra_op_num_threads = 1
    try:
        options.register_custom_ops_library(str(kernels.file))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        outputs = dict(zip(wanted, session.run([*wanted], feed), strict=True))
    except Exception:  # onnxruntime has no common base class for its errors
        return sorted({case.node.op_type for case in cases})
    return sorted({case.node.op_type for case in cases if not _is_right(case, outputs)})


def _info(entry: tuple[str, Array]) -> Any:
    name, array = entry
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _is_right(case: _Case, outputs: dict[str, Array]) -> bool:
    return all(
        np.allclose(outputs[name].astype(np.float32), wanted, rtol=0, atol=case.tolerance.get(name, 1e-4))
        for name, wanted in case.wanted.items()
    )


def _attention(rng: np.random.Generator) -> Iterator[_Case]:
    for size in _HEAD_SIZES:
        for is_int8 in (False, True):
            for beams in (1, _BEAMS):
                yield _cached_attention(rng, size, beams, is_int8=is_int8)
        yield _whole_attention(rng, size)


def _cached_attention(rng: np.random.Generator, size: int, beams: int, *, is_int8: bool) -> _Case:
    """Attention of a single query, appended to the cache; or of `beams` queries that share keys and have a bias."""
    sources, appends, name = len(_LAST), beams == 1, f"{size}.{beams}.{is_int8}"
    cache = rng.normal(size=(2, sources, _HEADS, _CAPACITY, size)).astype(np.float32)
    new = rng.normal(size=(sources, beams, 3 if appends else 1, _HEADS, size)).astype(np.float32)
    scales = rng.uniform(0.01, 0.03, (2, _HEADS, size)).astype(np.float32)
    if is_int8:
        cache = rng.integers(-127, 128, cache.shape).astype(np.int8)
    feed = {f"rows.{name}": new.reshape(sources * beams, -1), f"key.{name}": cache[0], f"value.{name}": cache[1]}
    inputs = [*feed, "last", "", "", ""]
    feed["last"] = _LAST
    if not appends:
        inputs[4] = f"bias.{name}"
        feed[inputs[4]] = rng.normal(size=(1, _HEADS, 1, _CAPACITY)).astype(np.float32)
    if is_int8:
        inputs[5:] = f"key_scale.{name}", f"value_scale.{name}"
        feed |= dict(zip(inputs[5:], scales, strict=True))
    present = cache.copy()
    if appends:
        for source, last in enumerate(_LAST):
            kept = new[source, 0, 1:]  # (2, N, H)
            present[:, source, :, last] = np.clip(np.rint(kept / scales), -128, 127) if is_int8 else kept
    key, value = present * scales[:, None, :, None] if is_int8 else present
    wanted = _attended(new[:, :, 0], key, value, 0.2, feed.get(inputs[4]), _LAST)
    outputs = {f"attended.{name}": wanted.reshape(sources * beams, -1)}
    outputs |= {f"new_key.{name}": present[0], f"new_value.{name}": present[1]}
    node = helper.make_node(
        "AttendToInt8Cache" if is_int8 else "AttendToCache", inputs, [*outputs], domain=KERNELS,
        heads=_HEADS, beams=beams, appends=int(appends), scale=0.2,
    )  # fmt: skip
    # A number in int8 may be on the other side of a half.
    last_bit = {f"new_{part}.{name}": 1.0 for part in ("key", "value")} if is_int8 else {}
    return _Case(node, feed, outputs, last_bit)


def _whole_attention(rng: np.random.Generator, size: int) -> _Case:
    packed = rng.normal(size=(len(_LAST), _LENGTH, 3, _HEADS, size)).astype(np.float32)
    q, key, value = np.moveaxis(packed, 2, 0)
    wanted = _attended(q, key.swapaxes(1, 2), value.swapaxes(1, 2), 0.2)
    feed = {f"packed.{size}": packed.reshape(len(_LAST) * _LENGTH, -1), "shape": np.array([len(_LAST), _LENGTH, -1])}
    outputs = {f"within.{size}": wanted.reshape(len(_LAST) * _LENGTH, -1)}
    node = helper.make_node("AttendWithin", [*feed], [*outputs], domain=KERNELS, heads=_HEADS, scale=0.2)
    return _Case(node, feed, outputs)


def _attended(
    q: Array, key: Array, value: Array, scale: float, bias: Array | None = None, last: Array | None = None
) -> Array:
    """q (B, Q, N, H), key and value (B, N, T, H), bias (1, N, 1, T) -> (B, Q, N, H)."""
    scores = q.transpose(0, 2, 1, 3) @ key.swapaxes(2, 3) * scale  # (B, N, Q, T)
    if bias is not None:
        scores += bias
    if last is not None:
        scores[np.broadcast_to(np.arange(scores.shape[3]) > last[:, None, None, None], scores.shape)] = -np.inf
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    weights /= weights.sum(axis=3, keepdims=True)
    attended: Array = (weights @ value).transpose(0, 2, 1, 3)
    return attended


def _rows(rng: np.random.Generator) -> Iterator[_Case]:
    """The combinations that graphs have: an activation, or a residual connection and a norm; and the product alone."""
    yield _row(rng, "FinishProduct", "factors bias", activation=_SILU)
    yield _row(rng, "FinishProduct", "factors bias residual", norm=_LAYER_NORM)
    yield _row(rng, "FinishRows", "bias", activation=_RELU)
    yield _row(rng, "FinishRows", "residual", norm=_RMS_NORM)
    yield _row(rng, "FinishRows", "")
    yield _mixed_row(rng)


def _row(rng: np.random.Generator, operator: str, parts: str, *, activation: int = 0, norm: int = 0) -> _Case:
    name = f"{operator}.{activation}.{norm}"
    shapes = {"x": (3, _SIZE), "factors": (3, 1), "bias": (_SIZE,), "residual": (3, _SIZE), "weight": (_SIZE,)}
    asked = {"x", *parts.split(), *(["weight"] if norm else [])}
    drawn = {part: rng.normal(size=shape).astype(np.float32) for part, shape in shapes.items() if part in asked}
    y = drawn["x"] * drawn.get("factors", 1) + drawn.get("bias", 0)
    if activation:
        y = np.maximum(y, 0) if activation == _RELU else y / (1 + np.exp(-y))
    y = sums = y + drawn.get("residual", 0)
    if norm:
        y = y - y.mean(axis=1, keepdims=True) if norm == _LAYER_NORM else y
        y = y / np.sqrt((y**2).mean(axis=1, keepdims=True) + 1e-5) * drawn["weight"]
    if norm == _LAYER_NORM:
        y += drawn["weight"]
    scales = np.abs(y).max(axis=1, keepdims=True) / 127
    outputs = {f"quantized.{name}": (np.rint(y / scales) + 128).astype(np.uint8), f"scales.{name}": scales}
    if parts:
        outputs = {f"y.{name}": y} | ({f"sums.{name}": sums} if norm else {}) | outputs
    inputs = [f"{part}.{name}" if part in drawn else "" for part in shapes]
    node = helper.make_node(
        operator, [*inputs, inputs[-1] if norm == _LAYER_NORM else ""],
        [f"{part}.{name}" if f"{part}.{name}" in outputs else "" for part in ("y", "sums", "quantized", "scales")],
        domain=KERNELS, activation=activation, norm=norm, epsilon=1e-5, lowest=0.0, mixed=0,
    )  # fmt: skip
    feed = {f"{part}.{name}": array for part, array in drawn.items()}
    return _Case(node, feed, outputs, {f"quantized.{name}": 1.0})


def _mixed_row(rng: np.random.Generator) -> _Case:
    x = rng.normal(size=(3, _MIXED_SIZE)).astype(np.float32)
    mixed = mix(x)
    scales = np.abs(mixed).max(axis=1, keepdims=True) / 127
    outputs = {"quantized.mixed": (np.rint(mixed / scales) + 128).astype(np.uint8), "scales.mixed": scales}
    node = helper.make_node(
        "FinishRows", ["x.mixed"], ["", "", *outputs],
        domain=KERNELS, activation=0, norm=0, epsilon=1e-5, lowest=0.0, mixed=1,
    )  # fmt: skip
    return _Case(node, {"x.mixed": x}, outputs, {"quantized.mixed": 1.0})


def _sum_powers(kernels: Kernels, rng: np.random.Generator) -> bool:
    x, factors = rng.normal(size=(3, _VOCABULARY)).astype(np.float32), rng.uniform(0.5, 2, 3).astype(np.float32)
    return np.allclose(kernels.sum_powers(x, None), np.exp(x).sum(axis=1), rtol=1e-4) and np.allclose(
        kernels.sum_powers(x, factors), np.exp(x * factors[:, None]).sum(axis=1), rtol=1e-4
    )


def _best_continuations(kernels: Kernels, rng: np.random.Generator) -> bool:
    """Two sentences with two rows each, with factors and without; few continuations, and many."""
    logits = rng.normal(size=(4, _VOCABULARY)).astype(np.float32)
    normalizers, before = rng.normal(size=(2, 4)).astype(np.float32)
    for factors, count in ((None, 4), (rng.uniform(0.5, 2, 4).astype(np.float32), 20)):
        scaled = logits if factors is None else logits * factors[:, None]
        every = (scaled - normalizers[:, None] + before[:, None]).reshape(2, 2 * _VOCABULARY)
        best = np.argsort(-every, axis=1)[:, :count]
        scores, rows, ids, is_sure = kernels.best_continuations(
            logits, factors, normalizers, before.reshape(2, 2), count
        )
        if not (is_sure.all() and np.array_equal(rows * _VOCABULARY + ids, best)):
            return False
        if not np.array_equal(scores, np.take_along_axis(every, best, axis=1)):
            return False
    return True


def _copy_rows(kernels: Kernels, rng: np.random.Generator) -> bool:
    cache = rng.normal(size=(2, 4, _HEADS, _CAPACITY, 16)).astype(np.float32)
    wanted = cache.copy()
    wanted[:, 3, :, 2:7], wanted[:, 1, :, :4] = cache[:, 0, :, 2:7], cache[:, 2, :, :4]
    first, last = np.array([2, 0], np.int32), np.array([7, 4], np.int32)
    kernels.copy_rows(cache, np.array([3, 1]), np.array([0, 2]), first, last)
    return np.array_equal(cache, wanted)


def _lay_out(kernels: Kernels, rng: np.random.Generator) -> bool:
    """Whether a cache is laid out right again in the same memory: with more positions and fewer rows, and back."""
    memory = rng.normal(size=1000).astype(np.float32)
    shapes = (2, 3, 2, 4, 16), (2, 2, 2, 7, 16)
    layouts = [memory[: np.prod(shape)].reshape(shape) for shape in shapes]
    wanted = layouts[0][:, :2, :, :4].copy()
    for old, new in (layouts, layouts[::-1]):
        kernels.lay_out(old, new, 2, 4)
        if not np.array_equal(new[:, :2, :, :4], wanted):
            return False
    return True
