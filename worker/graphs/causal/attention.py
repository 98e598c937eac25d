"""
Attention of a causal layer, by onnxruntime's GroupQueryAttention (docs/ContribOperators.md of onnxruntime).

Matrix products run over tokens (M, D), the kernel over rows of equal length: `graphs` says how they map.

Rotary positions are tables of cosines and sines. ALiBi takes one more element in each head: the bias in a key, a
constant in a query, so that their product is the bias of the score, in all modes and with a cache.

Shapes: as in `graphs`.
"""

import functools
from typing import Any

import numpy as np
from onnx import GraphProto, helper

from worker.graphs.causal.block import HeadNorm
from worker.graphs.causal.normalization import normalize
from worker.graphs.causal.rope import Rope
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.tensor_names import KEY_NORM, QUERY_NORM
from worker.graphs.causal.weights import Array, CausalWeights
from worker.graphs.graph_builder import CONTRIB, GraphBuilder, Shape
from worker.graphs.matrix_products import Load, Products

# How many tokens of continuations may follow a past of the greatest length. Scores between different continuations are
# computed for nothing: 20 continuations of 60 tokens behind a past of 60 ran 1.51 times as fast as each alone, and with
# room for 1,024 tokens only 0.86 times (width 192; at width 896 there was no measurable difference).
SHARED_ROOM = 256

_SIGNS = (("least", -1), ("most", 1))


class Attention:
    """Self-attention of the layers of a body, or of a stage of it."""

    def __init__(
        self,
        net: GraphBuilder,
        sizes: CausalSizes,
        weights: CausalWeights,
        products: Products,
        dtype: np.dtype[Any],
        layers: range,
    ) -> None:
        self._net = net
        self._sizes = sizes
        self._weights = weights
        self._products = products
        self._dtype = dtype
        self._rows = net.input("rows", np.int64, ["B", "S"])
        self._places = net.input("places", np.int64, ["M"])
        net.input("positions", np.int64, ["B", "S"])
        net.input("ends", np.int32, ["B"])
        net.input("longest", np.int32, [1])
        net.input("is_shared", np.bool_, [])
        net.input("bias", dtype, [1, 1, None, None])
        self._num_positions = sizes.max_positions + SHARED_ROOM
        self._tables = {
            rope: self._rotations(rope, f".{number}" if number else "")
            for number, rope in enumerate(sizes.distinct_ropes)
            if rope in sizes.ropes[layers.start : layers.stop]
        }

    def token_positions(self) -> str:
        """The position of each token (M,)."""
        net = self._net
        if "token_positions" not in net:
            flat = net.op("Reshape", "positions", net.constant("flat_shape", [-1]), name="flat_positions")
            net.op("Gather", flat, self._places, name="token_positions")
        return "token_positions"

    def attend(self, x: str, layer: int, cached: int) -> str:
        """Self-attention: (M, D) -> (M, D). `cached`: the number of the layer among those with a past."""
        net, sizes, weights, name = self._net, self._sizes, self._weights, f"layers.{layer}"
        bias: Load | None = (lambda: weights.qkv_bias(layer)) if sizes.has_qkv_bias else None
        packed = self._products.linear(net, x, f"{name}.qkv", lambda: weights.qkv(layer), bias)  # (M, (N + 2 K) H)
        if (limit := sizes.block.clip_qkv) is not None:
            least, most = (net.constant(f"clip_{word}", sign * limit, self._dtype) for word, sign in _SIGNS)
            packed = net.op("Clip", packed, least, most, name=f"{name}.qkv_clipped")
        if sizes.block.head_norm is not None:
            packed = self._normalize_heads(packed, layer)
        if sizes.alibi is not None:
            packed = net.op("Add", packed, self._key_biases(), name=f"{name}.qkv_biased")
        in_rows = net.op("Gather", packed, self._rows, name=f"{name}.qkv_rows")  # (B, S, (N + 2 K) H)
        attended = self._attend_in_rows(in_rows, layer, cached)  # (B, S, N H)
        shape = net.constant("attended_shape", [-1, sizes.attention_width])
        attended = net.op("Reshape", attended, shape, name=f"{name}.attended_places")
        attended = net.op("Gather", attended, self._places, name=f"{name}.attended")  # (M, N H)
        bias = (lambda: weights.out_bias(layer)) if sizes.block.out_bias else None
        return self._products.linear(net, attended, f"{name}.out", lambda: weights.out(layer), bias)

    def _rotations(self, rope: Rope, ending: str) -> tuple[str, str]:
        """The tables of cosines and sines."""

        def table(number: int) -> Array:
            values: Array = self._weights.rotations(rope, self._num_positions)[number].astype(self._dtype)
            return values

        cosines = self._net.weight(f"cosines{ending}", lambda: table(0))
        return cosines, self._net.weight(f"sines{ending}", lambda: table(1))

    def _key_biases(self) -> str:
        """ALiBi's bias in the last element of each key, zeros elsewhere (M, (N + 2 K) H)."""
        net, sizes = self._net, self._sizes
        if "key_biases" not in net:
            table = net.weight("alibi", lambda: self._weights.alibi(self._num_positions).astype(self._dtype))
            biases = net.op("Gather", table, self.token_positions(), name="biases_of_heads")  # (M, K)
            biases = net.op("Unsqueeze", biases, net.constant("element_axis", [2]), name="biases_of_elements")
            sides = net.constant("element_sides", [0, 0, sizes.head_size - 1, 0, 0, 0])
            biases = net.op("Pad", biases, sides, name="biases_in_heads")  # (M, K, H)
            key_width = sizes.kv_heads * sizes.head_size
            shape = net.constant("key_shape", [-1, key_width])
            biases = net.op("Reshape", biases, shape, name="biases_of_keys")
            sides = net.constant("key_sides", [0, sizes.attention_width, 0, key_width])
            net.op("Pad", biases, sides, name="key_biases")
        return "key_biases"

    def _normalize_heads(self, packed: str, layer: int) -> str:
        """Normalize queries and keys before the rotation, head by head or over the whole projection."""
        net, sizes, name = self._net, self._sizes, f"layers.{layer}"
        widths = [sizes.attention_width, sizes.kv_heads * sizes.head_size, sizes.kv_heads * sizes.head_size]
        names = [f"{name}.{part}" for part in ("q", "k", "v")]
        parts = net.ops("Split", packed, net.constant("qkv_widths", widths), outputs=names, axis=1)
        epsilon = sizes.block.epsilon * sizes.own_head_size / sizes.head_size  # see `CausalWeights.head_norm`
        over, bias = sizes.block.head_norm, None
        for number, (part, role) in enumerate((("q", QUERY_NORM), ("k", KEY_NORM))):
            scale = own = net.weight(f"{name}.{role}", functools.partial(self._head_norm, layer, role))
            if over is HeadNorm.EACH_HEAD:
                scale = net.weight("ones_of_head", lambda: np.ones(sizes.head_size, self._dtype))
            if sizes.block.head_norm_bias:
                bias = net.weight(f"{name}.{role}.bias", functools.partial(self._head_norm_bias, layer, role))
            normal = parts[number]
            if over is not HeadNorm.PROJECTION:
                shape = net.constant("heads_shape", [-1, sizes.head_size])
                normal = net.op("Reshape", normal, shape, name=f"{name}.{part}_heads")
            normal = normalize(net, sizes.block.norm, normal, scale, bias, f"{name}.{part}_normalized", epsilon)
            if over is not HeadNorm.PROJECTION:
                shape = net.constant(f"{part}_shape", [-1, widths[number]])
                normal = net.op("Reshape", normal, shape, name=f"{name}.{part}_rows")
            if over is HeadNorm.EACH_HEAD:
                normal = net.op("Mul", normal, own, name=f"{name}.{part}_scaled")
            parts[number] = normal
        return net.op("Concat", *parts, name=f"{name}.qkv_normalized", axis=1)

    def _head_norm(self, layer: int, role: str) -> Any:
        return self._weights.head_norm(layer, role).astype(self._dtype)

    def _head_norm_bias(self, layer: int, role: str) -> Any:
        return self._weights.head_norm_bias(layer, role).astype(self._dtype)

    def _attend_in_rows(self, packed: str, layer: int, cached: int) -> str:
        """(B, S, (N + 2 K) H) -> (B, S, N H); keys and values go into the caller's buffer, if there is one."""
        net, sizes = self._net, self._sizes
        shape: Shape = ["B", sizes.kv_heads, "C", sizes.head_size]
        outputs = [f"layers.{layer}.attended_rows"]
        for part in ("key", "value"):
            net.input(f"past.{cached}.{part}", self._dtype, shape)
            net.output(f"present.{cached}.{part}", f"present.{cached}.{part}", self._dtype, shape)
            outputs.append(f"present.{cached}.{part}")
        branches = {
            name: self._branch(packed, layer, cached, name, is_shared)
            for name, is_shared in (("then_branch", True), ("else_branch", False))
        }
        return net.ops("If", "is_shared", outputs=outputs, **branches)[0]

    def _branch(self, packed: str, layer: int, cached: int, branch: str, is_shared: bool) -> GraphProto:
        """The attention of a layer as a branch of an If, with a bias or without."""
        sizes = self._sizes
        rope = sizes.ropes[layer]
        tables = ["", "", ""] if rope is None else [*self._tables[rope], "positions"]
        inputs = [packed, "", "", f"past.{cached}.key", f"past.{cached}.value", "ends", "longest", *tables]
        inputs += ["bias"] * is_shared
        outputs = [f"layers.{layer}.{branch}.{part}" for part in ("attended", "key", "value")]
        window = None if is_shared else sizes.windows[layer]
        cap = sizes.block.attention_cap
        capped: dict[str, Any] = {} if cap is None else {"softcap": cap}
        node = helper.make_node(
            "GroupQueryAttention", inputs, outputs,
            name=outputs[0], domain=CONTRIB, num_heads=sizes.heads, kv_num_heads=sizes.kv_heads,
            do_rotary=int(rope is not None), scale=sizes.attention_scale(layer),
            local_window_size=-1 if window is None else window, **capped,
        )  # fmt: skip
        kind = helper.np_dtype_to_tensor_dtype(self._dtype)
        kept: Shape = ["B", sizes.kv_heads, "C", sizes.head_size]
        shapes: list[Shape] = [["B", "S", sizes.attention_width], kept, kept]
        given = [
            helper.make_tensor_value_info(name, kind, list(shape)) for name, shape in zip(outputs, shapes, strict=True)
        ]
        return helper.make_graph([node], f"layers.{layer}.{branch}", [], given)
