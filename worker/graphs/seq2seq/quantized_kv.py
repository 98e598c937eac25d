"""
Keys and values in int8: each channel of each head has a scale, which is measured once, when the model is added.

A static scale keeps every row independent of its neighbours, and a cached value is quantized when it is written.
Attention is bound by reading keys and values where they do not fit into the second-level cache; in int8 they are a
quarter. GroupQueryAttention multiplies by the scales as it reads, and computes in float32 (onnxruntime's
docs/ContribOperators.md: `k_quant_type`, `v_quant_type`, `kv_cache_bit_width`). A value beyond 127 scales becomes 127
scales.

Shapes: L decoder layers · N heads · H head size · D width, N x H.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from worker.graphs.graph_builder import GraphBuilder, Shape

INT8 = np.dtype(np.int8)
# A scale has room for 1.25 times the largest value of the sample, and for a quarter of the largest possible value: a
# token that the sample lacks may be unlike all others, and more than a quarter takes a token that is alike to this
# channel alone. (Independent values reach 3 to 5 of the sqrt(D) standard deviations that are possible.)
_ROOM, _POSSIBLE = 1.25, 0.25
_BITS = 6  # of a scale, rounded up: the last bits of the measuring processor's arithmetic do not matter
_CROSS = "cross_scales"  # (2 L x D,)
PARTS = ("key", "value")
_BROKEN = -128  # in place of all keys and values of a sentence; others are not all at the end of the range
ATTRIBUTES: Mapping[str, Any] = {
    "k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL", "kv_cache_bit_width": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LargestKV:
    """The largest absolute value of each channel of keys and values (2 L, N, H), in the order of `KVScales`."""

    past: NDArray[np.float32]  # of self-attention
    cross: NDArray[np.float32]  # of cross-attention


@dataclass(frozen=True, slots=True)
class KVScales:
    """One scale for each channel of keys and values (2 L, N, H): key of layer 0, value of layer 0, and so on."""

    past: NDArray[np.float32]  # of self-attention
    cross: NDArray[np.float32]  # of cross-attention

    @classmethod
    def of(cls, seen: "LargestKV", possible: "LargestKV") -> "KVScales":
        """The scales for the largest values `seen` in a sample and the largest `possible` ones."""
        return cls(_scale(seen.past, possible.past), _scale(seen.cross, possible.cross))

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """The scales as tensors of the model's graphs, by name."""
        tensors = {_CROSS: self.cross.reshape(-1)}
        for kind, scales in (("self_attn", self.past), ("encoder_attn", self.cross)):
            for index, scale in enumerate(scales):
                tensors[_name(index // 2, kind, PARTS[index % 2])] = scale[None, :, None, :]
        return tensors


def kv_dtype(net: GraphBuilder, layer: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of keys and values in a graph that has this layer; `dtype` without scales."""
    return INT8 if net.stores(_name(layer, "self_attn", "key")) else dtype


def scales_of(net: GraphBuilder, layer: int, kind: str) -> list[str]:
    """The scales of a layer's keys and of its values, for GroupQueryAttention with `ATTRIBUTES`. `kind`: self_attn,
    encoder_attn."""
    return [_scale_of(net, layer, kind, part) for part in PARTS]


def quantize_cross(net: GraphBuilder, x: str, hidden: str, shape: str) -> tuple[str, np.dtype[Any]] | None:
    """The encoder's keys and values of all layers (M, 2 L x D) in int8 (B, S x 2 L x D); None without scales. `hidden`
    (M, D): what they are made of; `shape`: of the ids (B, S).

    int8 has no NaN. So the keys and values of a sentence that is not finite are all `_BROKEN`: see `broken_sentences`.
    """
    if not net.stores(_CROSS):
        return None
    small = _quantize(net, x, net.weight(_CROSS, _missing), f"{x}.cached")
    sentences = net.op("Slice", shape, net.constant("zero_int", [0]), net.constant("one_int", [1]), name="sentences")
    by_sentence = net.op("Concat", sentences, net.constant("minus_one", [-1]), name="by_sentence", axis=0)
    zeros = net.op("Mul", hidden, net.constant("zero_factor", 0, np.float32), name="hidden.zeros")  # NaN if not finite
    sums = net.op("ReduceSum", net.op("Reshape", zeros, by_sentence, name="hidden.by_sentence"), "one_int", name="sums")
    broken, value = net.op("IsNaN", sums, name="broken"), net.constant("broken_value", _BROKEN, np.int8)
    kept = net.op("Reshape", small, by_sentence, name=f"{x}.by_sentence")
    return net.op("Where", broken, value, kept, name=f"{x}.marked"), INT8


def broken_sentences(cross: NDArray[Any]) -> NDArray[np.bool_]:
    """Which sentences were not finite when they were encoded (B,), by the keys of a token in some layer (B, ..., H).
    With keys in floating point none is reported: there NaN goes on into the logits."""
    by_sentence = cross.reshape(len(cross), -1)
    if cross.dtype != INT8:
        return np.zeros(len(cross), np.bool_)
    broken: NDArray[np.bool_] = (by_sentence == _BROKEN).all(axis=1)
    return broken


def dequantize_cross(net: GraphBuilder, x: str, layer: int, part: str) -> str:
    """Cross keys or values (B, N, S, H) in float32."""
    scale = _scale_of(net, layer, "encoder_attn", part)
    return net.op("Mul", net.op("Cast", x, name=f"{x}.float", to=TensorProto.FLOAT), scale, name=f"{x}.dequantized")


def times_key_scales(net: GraphBuilder, q: str, layer: int) -> str:
    """Queries of cross-attention (R, D), for products with keys as they are in the cache."""
    scale = _scale_of(net, layer, "encoder_attn", "key")
    return net.op(
        "Mul", q, net.op("Reshape", scale, net.constant("flat", [-1]), name=f"{q}.key_scales"), name=f"{q}.scaled"
    )


def as_cached(net: GraphBuilder, x: str, layer: int, part: str, heads: int, head_size: int) -> tuple[str, str]:
    """Keys or values of self-attention (R, T, D): what attention reads of them once they are cached, in float32, and
    what is cached (R, N, T, H)."""
    by_channel = net.constant("flat", [-1])
    scales = net.op("Reshape", _scale_of(net, layer, "self_attn", part), by_channel, name=f"{x}.scales")
    small = _quantize(net, x, scales, f"{x}.quantized")
    read = net.op(
        "Mul", net.op("Cast", small, name=f"{x}.float", to=TensorProto.FLOAT), scales, name=f"{x}.dequantized"
    )
    by_head: Shape = [0, 0, heads, head_size]
    split = net.op("Reshape", small, net.constant("by_head", by_head), name=f"{x}.by_head")
    return read, net.op("Transpose", split, name=f"{x}.cached", perm=[0, 2, 1, 3])


def _quantize(net: GraphBuilder, x: str, scales: str, name: str) -> str:
    """(..., D) in int8, by the scale of each channel. Divides first, since QuantizeLinear takes 132 ms for 512 x 6,144
    with a scale for each channel of the last axis, and 1 ms with a single scale."""
    unit_scale = net.constant("one_scale", np.ones(()), np.float32)
    zero = net.constant("int8_zero", np.zeros(()), np.int8)
    return net.op("QuantizeLinear", net.op("Div", x, scales, name=f"{name}.scaled"), unit_scale, zero, name=name)


def _scale_of(net: GraphBuilder, layer: int, kind: str, part: str) -> str:
    return net.weight(_name(layer, kind, part), _missing)


def _name(layer: int, kind: str, part: str) -> str:
    return f"decoder.layers.{layer}.{kind}.{part}_scale"


def _missing() -> NDArray[np.float32]:
    raise AssertionError("a model has the scales of all layers or none")


def _scale(seen: NDArray[np.float32], possible: NDArray[np.float32]) -> NDArray[np.float32]:
    """The value of one int8 step of each channel; 1 for a channel that is always 0."""
    largest = np.maximum(_ROOM * seen, _POSSIBLE * possible)
    fraction, exponent = np.frexp(np.where(largest > 0, largest, 127) / 127)
    rounded: NDArray[np.float32] = np.ldexp(np.ceil(fraction * 2**_BITS) / 2**_BITS, exponent).astype(np.float32)
    return rounded
