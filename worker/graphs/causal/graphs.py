"""
The graphs of a causal language model, from its weights: RMS norms, rotary positions, grouped-query attention, SwiGLU.

    body.onnx   tokens of many sequences                 -> a hidden state for each
    head.onnx   hidden states and the id that came next  -> its log-probability; the logits never leave the graph

Matrix products run over the tokens of all sequences, packed without padding (M, D). Attention alone runs over rows of
equal length (B, S): `rows` maps each place of a row to its token, `places` each token to its place. Places behind the
end of a row are ignored. There are three modes of attention, chosen by the inputs:

    fresh     B rows with a past of length 0: each row begins a sequence
    extended  one row behind a past in the caller's buffer, which grows by the row
    shared    one row of several continuations behind the same past; `bias` (1, 1, S, P + S) masks them from each
              other, and `positions` restarts with each

Only `shared` needs a bias. With one, the kernel holds all scores (N x S x T) in memory at once, so it has a branch of
its own.

Structure: as in `causal_weights`. Attention: onnxruntime's GroupQueryAttention (docs/ContribOperators.md).

Shapes: M tokens · B rows · S their length · T = P + S, past and present · C capacity of the buffer · N heads ·
K key/value heads · H head size · D width · V vocabulary.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, helper

from worker.graphs.causal.head import head_graph
from worker.graphs.causal.weights import Array, CausalSizes, CausalWeights
from worker.graphs.checkpoint_weights import Weights
from worker.graphs.file_names import BODY, HEAD, WEIGHTS
from worker.graphs.graph_builder import CONTRIB, GraphBuilder, Shape
from worker.graphs.matrix_products import Load, products_in
from worker.graphs.precision import Precision
from worker.graphs.weights import Store, WeightsFile

# How many tokens of continuations may follow a past of the greatest length. Scores between different continuations are
# computed for nothing: 20 continuations of 60 tokens behind a past of 60 ran 1.51 times as fast as each alone, and with
# room for 1,024 tokens only 0.86 times (width 192; at width 896 there was no measurable difference).
SHARED_ROOM = 256


def write_causal(folder: Path, config: Mapping[str, Any], weights: Weights, *, precision: Precision) -> None:
    """Write body, head and their weights into `folder`.

    Raises ModelError for what is missing in the checkpoint or not supported. The same input gives the same bytes.
    """
    sizes = CausalSizes.read(config)
    named = CausalWeights(weights, sizes)
    with WeightsFile(folder / WEIGHTS) as file:
        graphs = {
            BODY: body_graph(sizes, file, named, precision),
            HEAD: head_graph(sizes, file, named, precision),
        }
    for name, net in graphs.items():
        (folder / name).write_bytes(net.model().SerializeToString(deterministic=True))


def body_graph(
    sizes: CausalSizes,
    store: Store,
    weights: CausalWeights,
    precision: Precision,
    layers: range | None = None,
) -> GraphBuilder:
    """ids (M,), rows (B, S), places (M,) in B x S, positions (B, S), ends (B,): past and own length of each row - 1,
    longest (1,): T, is_shared (), bias, past.LAYER.key and .value (B, K, C, H) -> hidden (M, D), present.LAYER.…

    `layers`: those of a stage; None: all. A stage that does not begin with the first reads `residual` (M, D) in place
    of ids; one that does not end with the last gives `next_residual` in place of hidden. Past and present count its own
    layers, from 0.
    """
    layers = range(sizes.layers) if layers is None else layers
    net = GraphBuilder("body", store)
    body = _Body(net, sizes, weights, precision)
    if layers.start == 0:
        ids = net.input("ids", np.int64, ["M"])
        table = net.weight("embeddings", lambda: weights.embeddings().astype(body.dtype))
        x = net.op("Gather", table, ids, name="embedded")  # (M, D)
    else:
        x = net.input("residual", body.dtype, ["M", sizes.width])
    for layer in layers:
        name = f"layers.{layer}"
        attended = body.attend(body.normalize(x, f"{name}.input_layernorm"), layer, layer - layers.start)
        x = net.op("Add", x, attended, name=f"{name}.attended_sum")
        inner = body.feed_forward(body.normalize(x, f"{name}.post_attention_layernorm"), layer)
        x = net.op("Add", x, inner, name=f"{name}.sum")
    if layers.stop == sizes.layers:
        net.output(body.normalize(x, "norm"), "hidden", body.dtype, ["M", sizes.width])
    else:
        net.output(x, "next_residual", body.dtype, ["M", sizes.width])
    return net


class _Body:
    """The parts of a layer."""

    def __init__(self, net: GraphBuilder, sizes: CausalSizes, weights: CausalWeights, precision: Precision) -> None:
        self.dtype = precision.float_dtype
        self._net = net
        self._sizes = sizes
        self._weights = weights
        self._products = products_in(precision)
        self._rows = net.input("rows", np.int64, ["B", "S"])
        self._places = net.input("places", np.int64, ["M"])
        net.input("positions", np.int64, ["B", "S"])
        net.input("ends", np.int32, ["B"])
        net.input("longest", np.int32, [1])
        net.input("is_shared", np.bool_, [])
        net.input("bias", self.dtype, [1, 1, None, None])
        num_positions = sizes.max_positions + SHARED_ROOM
        net.weight("cosines", lambda: weights.rotations(num_positions)[0].astype(self.dtype))
        net.weight("sines", lambda: weights.rotations(num_positions)[1].astype(self.dtype))

    def normalize(self, x: str, name: str) -> str:
        """RMS norm (Zhang and Sennrich 2019)."""
        scale = self._net.weight(f"{name}.weight", lambda: self._weights.norm(name).astype(self.dtype))
        return self._rms_norm(x, scale, name, self._sizes.epsilon)

    def attend(self, x: str, layer: int, cached: int) -> str:
        """Self-attention: (M, D) -> (M, D). `cached`: the number of the layer among those with a past."""
        net, sizes, weights, name = self._net, self._sizes, self._weights, f"layers.{layer}"
        bias: Load | None = (lambda: weights.qkv_bias(layer)) if sizes.qkv_bias else None
        packed = self._products.linear(net, x, f"{name}.qkv", lambda: weights.qkv(layer), bias)  # (M, (N + 2 K) H)
        if sizes.normalizes_heads:
            packed = self._normalize_heads(packed, layer)
        in_rows = net.op("Gather", packed, self._rows, name=f"{name}.qkv_rows")  # (B, S, (N + 2 K) H)
        attended = self._attend_in_rows(in_rows, layer, cached)  # (B, S, N H)
        shape = net.constant("attended_shape", [-1, sizes.attention_width])
        attended = net.op("Reshape", attended, shape, name=f"{name}.attended_places")
        attended = net.op("Gather", attended, self._places, name=f"{name}.attended")  # (M, N H)
        bias = (lambda: weights.out_bias(layer)) if sizes.out_bias else None
        return self._products.linear(net, attended, f"{name}.out", lambda: weights.out(layer), bias)

    def feed_forward(self, x: str, layer: int) -> str:
        """SwiGLU (Shazeer 2020): (M, D) -> (M, D)."""
        net, products, name = self._net, self._products, f"layers.{layer}"
        gate = net.op("QuickGelu", self._inner(x, layer, "gate_proj"), name=f"{name}.gate", domain=CONTRIB, alpha=1.0)
        if self._sizes.inner_bias:
            gated = net.op("Mul", gate, self._inner(x, layer, "up_proj"), name=f"{name}.gated")
            return self._inner(gated, layer, "down_proj")
        # down_proj is linear: row scales are applied to its output, which is about a fifth as wide as its input.
        up, scale = products.unscaled(net, x, f"{name}.up_proj", lambda: self._weights.inner(layer, "up_proj"))
        gated = net.op("Mul", gate, up, name=f"{name}.gated")
        return products.rescaled(
            net, gated, f"{name}.down_proj", lambda: self._weights.inner(layer, "down_proj"), scale
        )

    def _inner(self, x: str, layer: int, part: str) -> str:
        def bias() -> Array:
            return self._weights.inner_bias(layer, part)

        return self._products.linear(
            self._net,
            x,
            f"layers.{layer}.{part}",
            lambda: self._weights.inner(layer, part),
            bias if self._sizes.inner_bias else None,
        )

    def _normalize_heads(self, packed: str, layer: int) -> str:
        """RMS norm of queries and keys, head by head, before the rotation."""
        net, sizes, name = self._net, self._sizes, f"layers.{layer}"
        widths = [sizes.attention_width, sizes.kv_heads * sizes.head_size, sizes.kv_heads * sizes.head_size]
        names = [f"{name}.{part}" for part in ("q", "k", "v")]
        parts = net.ops("Split", packed, net.constant("qkv_widths", widths), outputs=names, axis=1)
        epsilon = sizes.epsilon * sizes.own_head_size / sizes.head_size  # see `head_norm`
        for number, part in enumerate(("q", "k")):
            scale = net.weight(f"{name}.{part}_norm", functools.partial(self._head_norm, layer, part))
            shape = net.constant("heads_shape", [-1, sizes.head_size])
            by_head = net.op("Reshape", parts[number], shape, name=f"{name}.{part}_heads")
            by_head = self._rms_norm(by_head, scale, f"{name}.{part}_normalized", epsilon)
            shape = net.constant(f"{part}_shape", [-1, widths[number]])
            parts[number] = net.op("Reshape", by_head, shape, name=f"{name}.{part}_rows")
        return net.op("Concat", *parts, name=f"{name}.qkv_normalized", axis=1)

    def _head_norm(self, layer: int, part: str) -> Any:
        return self._weights.head_norm(layer, part).astype(self.dtype)

    def _attend_in_rows(self, packed: str, layer: int, cached: int) -> str:
        """(B, S, (N + 2 K) H) -> (B, S, N H); keys and values go into the caller's buffer, if there is one."""
        net, sizes = self._net, self._sizes
        shape: Shape = ["B", sizes.kv_heads, "C", sizes.head_size]
        outputs = [f"layers.{layer}.attended_rows"]
        for part in ("key", "value"):
            net.input(f"past.{cached}.{part}", self.dtype, shape)
            net.output(f"present.{cached}.{part}", f"present.{cached}.{part}", self.dtype, shape)
            outputs.append(f"present.{cached}.{part}")
        branches = {
            name: self._attention(packed, layer, cached, name, is_shared)
            for name, is_shared in (("then_branch", True), ("else_branch", False))
        }
        return net.ops("If", "is_shared", outputs=outputs, **branches)[0]

    def _attention(self, packed: str, layer: int, cached: int, branch: str, is_shared: bool) -> GraphProto:
        """A branch: the attention of a layer, with a bias or without."""
        sizes = self._sizes
        inputs = [packed, "", "", f"past.{cached}.key", f"past.{cached}.value", "ends", "longest"]
        inputs += ["cosines", "sines", "positions"] + ["bias"] * is_shared
        outputs = [f"layers.{layer}.{branch}.{part}" for part in ("attended", "key", "value")]
        window = None if is_shared else sizes.windows[layer]
        node = helper.make_node(
            "GroupQueryAttention", inputs, outputs,
            name=outputs[0], domain=CONTRIB, num_heads=sizes.heads, kv_num_heads=sizes.kv_heads, do_rotary=1,
            scale=sizes.attention_scale, local_window_size=-1 if window is None else window,
        )  # fmt: skip
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        kept: Shape = ["B", sizes.kv_heads, "C", sizes.head_size]
        shapes: list[Shape] = [["B", "S", sizes.attention_width], kept, kept]
        given = [
            helper.make_tensor_value_info(name, kind, list(shape)) for name, shape in zip(outputs, shapes, strict=True)
        ]
        return helper.make_graph([node], f"layers.{layer}.{branch}", [], given)

    def _rms_norm(self, x: str, scale: str, name: str, epsilon: float) -> str:
        return self._net.op("SimplifiedLayerNormalization", x, scale, name=name, axis=-1, epsilon=epsilon, stash_type=1)
