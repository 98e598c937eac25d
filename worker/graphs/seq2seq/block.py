"""
The parts of the encoder's and the decoder's layers.

Self-attention of the decoder writes into a buffer of the caller, which is past and present at once; cross-attention
reads keys and values from a buffer of the caller.

Structure: transformers' modeling_marian.py (post-norm), modeling_m2m_100.py (pre-norm) and modeling_t5.py. Attention:
onnxruntime's contrib operators GroupQueryAttention and MultiHeadAttention (docs/ContribOperators.md).

Shapes: M tokens · R rows · B sentences (R / beams) · S source length · C capacity of the cache · L layers · N heads ·
H head size · D width.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from worker.graphs.graph_builder import CONTRIB, GraphBuilder, Shape
from worker.graphs.matrix_products import Load, Products, products_in
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.network import ACTIVATIONS, AttentionHeads, Seq2SeqNetwork
from worker.graphs.seq2seq.quantized_kv import (
    ATTRIBUTES,
    PARTS,
    as_cached,
    dequantize_cross,
    kv_dtype,
    quantize_cross,
    scales_of,
)
from worker.graphs.seq2seq.relative_bias import RelativeBias
from worker.graphs.seq2seq.weights import Seq2SeqWeights

# Inputs of GroupQueryAttention, between the lengths and the bias, and between that and the scales.
_NO_ROPE, _NO_SINK = ("", "", ""), ""


class MaskedCrossAttention:
    """The cross-attention of all layers of one graph whose sources are padded in memory, and the inputs that it needs.
    The rows of a source are queries of one sentence, so one graph takes any number of beams, and of tokens of each.
    source_mask (B, S): 1 token, 0 padding; cross.L.key and .value (B, N, S, H), finite everywhere
    """

    def __init__(self, net: GraphBuilder, heads: AttentionHeads, dtype: np.dtype[Any]) -> None:
        self._net = net
        self._heads = heads
        self._shape: Shape = ["B", heads.number, "S", heads.size]
        self._dtype = dtype
        net.input("source_mask", np.int32, ["B", "S"])
        num_sources = net.op("Shape", "source_mask", name="source_mask.shape", start=0, end=1)
        axes = net.constant("any_and_width", [-1, heads.width])
        self._by_source = net.op("Concat", num_sources, axes, name="by_source", axis=0)  # (B, -1, D)

    def attend(self, q: str, layer: int, cached: int) -> str:
        """Queries (M, D), grouped by source -> (B, M / B, D). `cached`: the number of the layer among those that the
        graph has."""
        return self.attend_to(q, self.borrow(layer, cached))

    def borrow(self, layer: int, cached: int) -> tuple[str, str]:
        """The inputs for keys and values of a layer (B, N, S, H)."""
        net, dtype = self._net, kv_dtype(self._net, layer, self._dtype)
        key, value = (net.input(f"cross.{cached}.{part}", dtype, self._shape) for part in PARTS)
        if dtype != self._dtype:
            key, value = (dequantize_cross(net, x, layer, part) for x, part in zip((key, value), PARTS, strict=True))
        return key, value

    def attend_to(self, q: str, cross: tuple[str, str]) -> str:
        """Queries (M, D), grouped by source -> (B, M / B, D). `cross`: from `borrow`."""
        net = self._net
        q = net.op("Reshape", q, self._by_source, name=f"{q}.by_source")
        return net.op(
            "MultiHeadAttention", q, *cross, "", "source_mask",
            name=f"{q}.attended", domain=CONTRIB, num_heads=self._heads.number, scale=self._heads.scale,
        )  # fmt: skip


class Seq2SeqBlock:
    """The parts of encoder and decoder layers. A row is a token: (M, D)."""

    def __init__(
        self,
        net: GraphBuilder,
        products: Products,
        network: Seq2SeqNetwork,
        weights: Seq2SeqWeights,
        dtype: np.dtype[Any],
        side: str = "decoder",
    ) -> None:
        """`side`: encoder or decoder, whose layers these are."""
        self.dtype = dtype
        self._is_wide = network.is_wide and dtype != np.float32
        self.residual_dtype = np.dtype(np.float32) if self._is_wide else dtype
        self._heads = network.heads(side)
        self.rows_shape = net.constant("rows_shape", [-1, network.width])
        self.attended_shape = net.constant("attended_shape", [-1, self._heads.width])
        self._net = net
        self._products = products
        self._network = network
        self._weights = weights
        self._no_keys = ""
        self.queries: dict[int, str] = {}  # of cross-attention, by layer
        self._wide = products_in(Precision.FP32) if self._is_wide else products
        self._relative = self._relative_bias(side)

    def residual(self, rows: str) -> str:
        """The input that a stage reads in place of ids: (rows, D)."""
        return self._net.input("residual", self.residual_dtype, [rows, self._network.width])

    def embed(self, ids: str, side: str) -> str:
        """ids (...) -> (..., D)."""
        net, weights = self._net, self._weights
        name = "embeddings" if self._network.shared_embeddings else f"{side}.embeddings"
        table = net.weight(name, lambda: weights.embeddings(side).astype(self.dtype))
        gathered = net.op("Gather", table, ids, name=f"{side}.found")
        scale = net.constant("embedding_scale", self._network.scale, self.dtype)
        return self._widened(net.op("Mul", gathered, scale, name=f"{side}.embedded"))

    def add_first_positions(self, embedded: str, side: str, length: str, name: str) -> str:
        """Embeddings (..., T, D) plus the vectors of positions 0 to T - 1; `length` (1,): T."""
        if (table := self._positions_table(side)) is None:
            return embedded
        net, places = self._net, "source_positions" if side == "encoder" else "prefix_positions"
        positions = net.op("Slice", table, net.constant("zero_int", [0]), length, name=places)  # (T, D)
        return net.op("Add", embedded, positions, name=name)

    def embed_targets(self, ids: str, graph: str) -> str:
        """ids (M,) -> embeddings (M, D), with the vectors of their positions added, which the input of that name has
        (M,). `graph`: names the nodes."""
        if (table := self._positions_table("decoder")) is None:
            return self.embed(ids, "decoder")
        positions = self._net.op("Gather", table, "positions", name=f"{graph}.positions")  # (M, D)
        return self._net.op("Add", self.embed(ids, "decoder"), positions, name=f"{graph}.x")

    def begin_layers(self, x: str, side: str) -> str:
        """Apply the norm between the embeddings and the first layer, if the network has one."""
        return self._normalize(x, f"{side}.layernorm_embedding") if self._network.embedding_norm else x

    def linear(self, x: str, layer: str, *names: str, lowest: float | None = None) -> str:
        """One product for several linear maps of the same input; `lowest`: a lower bound of `x`."""
        load, name = self._weights.layer, f"{layer}.{'_'.join(names)}"
        return self._products.linear(
            self._net,
            x,
            name,
            lambda: load(layer, *names)[0],
            self._bias(lambda: load(layer, *names)[1]),
            lowest=lowest,
        )

    def read(self, x: str, layer: str, kind: str) -> str:
        """The input of a part of a layer: the residual, normalized if norms come first. `kind`: self_attn,
        encoder_attn, or final for the feed-forward part."""
        return self._narrowed(self._normalize(x, f"{layer}.{kind}_layer_norm")) if self._network.norm_first else x

    def end_attention(self, x: str, attended: str, layer: str, kind: str) -> str:
        """Output projection and residual connection. `kind`: self_attn or encoder_attn."""
        change = self._widened(self.linear(attended, layer, f"{kind}.out_proj"))
        return self._add(x, change, f"{layer}.{kind}_layer_norm")

    def feed_forward(self, x: str, layer: str) -> str:
        """Two products with the activation between them, or three, and the residual connection."""
        read = self.read(x, layer, "final")
        lowest: float | None = ACTIVATIONS[self._network.activation]
        if self._network.is_gated:
            inner, lowest = self._gate(self.linear(read, layer, "gate", "up"), layer), None
        else:
            inner = self._activate(self.linear(read, layer, "fc1"), f"{layer}.activated")
        return self._add(x, self._outer(inner, layer, lowest), f"{layer}.final_layer_norm")

    def end_layers(self, x: str, side: str) -> str:
        """Apply the norm after the last layer, if the network has one."""
        return self._narrowed(self._normalize(x, f"{side}.layer_norm")) if self._network.final_norm else x

    def attend_to_all(self, x: str, layer: str, sentences: str, length: str) -> str:
        """Self-attention of the encoder: every token attends to the whole sentence. `sentences`: the shape (B, S, -1),
        `length` (1,): S."""
        net, heads = self._net, self._heads
        x = self.read(x, layer, "self_attn")
        packed = self.linear(x, layer, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")  # (B x S, 3 D)
        names = [f"{layer}.{part}" for part in ("q", "k", "v")]
        parts = net.ops("Split", packed, net.constant("thirds", [heads.width] * 3), outputs=names, axis=1)
        q, k, v = (net.op("Reshape", part, sentences, name=f"{part}.sentences") for part in parts)  # (B, S, D)
        bias = [] if self._relative is None else ["", "", self._relative.within_sentences(length)]
        attended = net.op(
            "MultiHeadAttention", q, k, v, *bias,
            name=f"{layer}.attended", domain=CONTRIB, num_heads=heads.number, scale=heads.scale,
        )  # fmt: skip
        return net.op("Reshape", attended, self.attended_shape, name=f"{layer}.attended_rows")

    def attend_to_past(self, x: str, layer: int, cached: int) -> str:
        """Self-attention of the decoder: one new token a row, whose key and value go into the cache at its position.
        `cached`: the number of the layer among those with a past, as in the next methods."""
        net, heads, name = self._net, self._heads, f"decoder.layers.{layer}"
        x = self.read(x, name, "self_attn")
        packed = self.linear(x, name, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")  # (R, 3 D)
        packed = net.op("Unsqueeze", packed, net.constant("one_int", [1]), name=f"{name}.qkv")  # (R, 1, 3 D)
        past = self._borrow(f"past.{cached}", f"present.{cached}", "R", "C", layer)
        bias = self._relative.of_step() if self._relative else ""
        further, quantized = self._further_inputs(layer, "self_attn", bias)
        attended, *_present = net.ops(
            "GroupQueryAttention", packed, "", "", *past, "positions", "longest", *further,
            outputs=[f"{name}.attended", f"present.{cached}.key", f"present.{cached}.value"],
            domain=CONTRIB, num_heads=heads.number, kv_num_heads=heads.number, scale=heads.scale, **quantized,
        )  # fmt: skip
        return net.op("Reshape", attended, self.attended_shape, name=f"{name}.attended_rows")

    def attend_to_source(self, x: str, layer: int, cached: int, beams: int) -> str:
        """Cross-attention. The beams of a sentence are query heads that share a key/value head.

        With a query of one token and no new keys, GroupQueryAttention reads the cache alone, up to the length of each
        sentence.
        """
        net, heads, name = self._net, self._heads, f"decoder.layers.{layer}.encoder_attn"
        q = self.query_of_source(x, layer)
        if beams > 1:  # (B, beams, N, H) -> (B, N, beams, H)
            q = net.op(
                "Reshape", q, net.constant("by_beam", [-1, beams, heads.number, heads.size]), name=f"{name}.by_beam"
            )
            q = net.op("Transpose", q, name=f"{name}.by_head", perm=[0, 2, 1, 3])
        q = net.op("Reshape", q, net.constant("queries", [-1, 1, beams * heads.width]), name=f"{name}.q")
        no_keys = self._no_new_keys(q)  # (B, 0, D)
        cross = self._borrow(f"cross.{cached}", f"lent.{cached}", "B", "S", layer)
        further, quantized = self._further_inputs(layer, "encoder_attn")
        attended, *_lent = net.ops(
            "GroupQueryAttention", q, no_keys, no_keys, *cross, "source_lengths", "longest_source", *further,
            outputs=[f"{name}.attended", f"lent.{cached}.key", f"lent.{cached}.value"],
            domain=CONTRIB, num_heads=heads.number * beams, kv_num_heads=heads.number, scale=heads.scale,
            **quantized,
        )  # fmt: skip
        if beams > 1:
            attended = net.op(
                "Reshape", attended, net.constant("by_kv_head", [-1, heads.number, beams, heads.size]),
                name=f"{name}.attended_by_head",
            )  # fmt: skip
            attended = net.op("Transpose", attended, name=f"{name}.attended_by_beam", perm=[0, 2, 1, 3])
        return net.op("Reshape", attended, self.attended_shape, name=f"{name}.attended_rows")

    def attend_to_all_before(self, packed: str, layer: int, present: Sequence[str] = ()) -> str:
        """Self-attention over whole rows: queries, keys and values (R, T, 3 D) -> (R, T, D). Every token attends to
        itself and those before it; inputs of the graph: ends (R,), T - 1, and length (1,), T.

        `present`: outputs for what a cache would hold, key and value (R, N, T, H).
        """
        net, heads, name = self._net, self._heads, f"decoder.layers.{layer}"
        attributes = {"num_heads": heads.number, "kv_num_heads": heads.number, "scale": heads.scale}
        further = [*_NO_ROPE, self._relative.of_prefixes()] if self._relative else []
        dtype = kv_dtype(net, layer, self.dtype)
        if dtype == self.dtype:
            outputs = [f"{name}.attended", *(present or (f"{name}.key", f"{name}.value"))]
            net.ops(
                "GroupQueryAttention", packed, "", "", "", "", "ends", "length", *further,
                outputs=outputs, domain=CONTRIB, **attributes,
            )  # fmt: skip
        else:
            thirds = net.constant("thirds", [heads.width] * 3)
            q, *parts = net.ops("Split", packed, thirds, outputs=[f"{name}.{part}" for part in "qkv"], axis=2)
            both = [
                as_cached(net, x, layer, part, heads.number, heads.size) for x, part in zip(parts, PARTS, strict=True)
            ]
            net.ops(
                "GroupQueryAttention", q, *(read for read, _cached in both), "", "", "ends", "length", *further,
                outputs=[f"{name}.attended", f"{name}.key", f"{name}.value"], domain=CONTRIB, **attributes,
            )  # fmt: skip
            for output, (_read, cached) in zip(present, both, strict=False):
                net.op("Identity", cached, name=output)
        shape: Shape = ["R", heads.number, "T", heads.size]
        for output in present:
            net.output(output, output, dtype, shape)
        return f"{name}.attended"

    def attend_to_masked_source(self, x: str, layer: int, cached: int, source: MaskedCrossAttention) -> str:
        """Cross-attention over padded sources."""
        q = self.query_of_source(x, layer)
        name = f"decoder.layers.{layer}.encoder_attn.attended_rows"
        return self._net.op("Reshape", source.attend(q, layer, cached), self.attended_shape, name=name)

    def query_of_source(self, x: str, layer: int) -> str:
        """The queries of cross-attention (M, D)."""
        name = f"decoder.layers.{layer}"
        self.queries[layer] = self.linear(self.read(x, name, "encoder_attn"), name, "encoder_attn.q_proj")
        return self.queries[layer]

    def cross_keys_and_values(self, x: str, shape: str) -> None:
        """The output `cross` (B, S, 2 L, N, H): keys and values of all decoder layers, in one product."""
        net, network, weights = self._net, self._network, self._weights

        def load() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            layers = (
                weights.layer(f"decoder.layers.{layer}", "encoder_attn.k_proj", "encoder_attn.v_proj")
                for layer in range(network.decoder_layers)
            )
            matrices, biases = zip(*layers, strict=True)
            return np.concatenate(matrices), np.concatenate(biases)

        packed = self._products.linear(net, x, "packed_cross", lambda: load()[0], lambda: load()[1])  # (B x S, 2 L D)
        axes = [2 * network.decoder_layers, network.decoder_heads.number, network.decoder_heads.size]
        cross_shape = net.op("Concat", shape, net.constant("cross_axes", axes), name="cross_shape", axis=0)
        small, dtype = quantize_cross(net, packed, x, shape) or (packed, self.dtype)
        # Not transposed here (5 % of a call): the copy into the slots does it on the way.
        net.output(net.op("Reshape", small, cross_shape, name="cross"), "cross", dtype, ["B", "S", *axes])

    def _bias(self, load: Load) -> Load | None:
        return load if self._network.has_biases else None

    def _positions_table(self, side: str) -> str | None:
        """The table of vectors that are added to embeddings; None: there are none."""
        if self._network.relative is not None:
            return None
        name, weights = "positions" if side == "encoder" else "positions_table", self._weights
        return self._net.weight(name, lambda: weights.positions(side).astype(self.dtype))

    def _relative_bias(self, side: str) -> RelativeBias | None:
        """The bias of the scores of self-attention; None if the network has none."""
        if (positions := self._network.relative) is None:
            return None
        weights = self._weights
        table = self._net.weight(f"{side}.relative_bias", lambda: weights.relative_bias(side).astype(self.dtype))
        return RelativeBias(self._net, table, positions)

    def _outer(self, inner: str, layer: str, lowest: float | None) -> str:
        """The last product of a feed-forward part, in the type of the residual."""
        weights, name = self._weights, f"{layer}.fc2"
        return self._wide.linear(
            self._net, self._widened(inner), name,
            lambda: weights.layer(layer, "fc2")[0], self._bias(lambda: weights.layer(layer, "fc2")[1]), lowest=lowest,
        )  # fmt: skip

    def _gate(self, both: str, layer: str) -> str:
        """(M, 2 F), gate and up side by side -> activation(gate) * up (M, F)."""
        halves = [f"{layer}.{part}" for part in ("gate_half", "up_half")]
        gate, up = self._net.ops("Split", both, outputs=halves, axis=1, num_outputs=2)
        return self._net.op("Mul", self._activate(gate, f"{layer}.activated"), up, name=f"{layer}.gated")

    def _widened(self, x: str) -> str:
        """`x` cast to the type of the residual."""
        return self._cast(x, self.residual_dtype, "wide") if self._is_wide else x

    def _narrowed(self, x: str) -> str:
        """`x` cast to the type of products."""
        return self._cast(x, self.dtype, "narrow") if self._is_wide else x

    def _cast(self, x: str, dtype: np.dtype[Any], how: str) -> str:
        return self._net.op("Cast", x, name=f"{x}.{how}", to=helper.np_dtype_to_tensor_dtype(dtype))

    def _add(self, x: str, change: str, norm: str) -> str:
        """Residual connection, normalized where norms come last."""
        total = self._net.op("Add", x, change, name=f"{norm}.sum")
        return total if self._network.norm_first else self._normalize(total, norm)

    def _normalize(self, x: str, norm: str) -> str:
        """Normalize `x`; the result has the residual's type, as `x` has."""
        net, weights, epsilon = self._net, self._weights, self._network.epsilon
        scale = net.weight(f"{norm}.weight", lambda: weights.norm(norm)[0].astype(self.residual_dtype))
        if self._network.rms_norm:
            return net.op("SimplifiedLayerNormalization", x, scale, name=norm, axis=-1, epsilon=epsilon, stash_type=1)
        bias = net.weight(f"{norm}.bias", lambda: weights.norm(norm)[1].astype(self.residual_dtype))
        return net.op("LayerNormalization", x, scale, bias, name=norm, axis=-1, epsilon=epsilon)

    def _activate(self, x: str, name: str) -> str:
        match self._network.activation:
            case "relu":
                return self._net.op("Relu", x, name=name)
            case "gelu":
                return self._net.op("Gelu", x, name=name)
            case "gelu_new":
                return self._net.op("Gelu", x, name=name, approximate="tanh")
            case _:
                return self._net.op("QuickGelu", x, name=name, domain=CONTRIB, alpha=1.0)

    def _borrow(self, past: str, present: str, rows: str, length: str, layer: int) -> tuple[str, str]:
        """Inputs for keys and values in the caller's buffer, and outputs that the caller binds to the same buffer."""
        shape: Shape = [rows, self._heads.number, length, self._heads.size]
        dtype = kv_dtype(self._net, layer, self.dtype)
        for part in PARTS:
            self._net.input(f"{past}.{part}", dtype, shape)
            self._net.output(f"{present}.{part}", f"{present}.{part}", dtype, shape)
        return f"{past}.key", f"{past}.value"

    def _further_inputs(self, layer: int, kind: str, bias: str = "") -> tuple[Sequence[str], Mapping[str, Any]]:
        """The last inputs of GroupQueryAttention and their attributes: a bias of scores, and the scales of keys and
        values where they are in int8."""
        if kv_dtype(self._net, layer, self.dtype) == self.dtype:
            return ([*_NO_ROPE, bias] if bias else []), {}
        return [*_NO_ROPE, bias, _NO_SINK, *scales_of(self._net, layer, kind)], ATTRIBUTES

    def _no_new_keys(self, q: str) -> str:
        """An empty tensor (B, 0, D), B as in `q`; shared by all layers."""
        if not self._no_keys:
            net, zeros = self._net, self._net.constant("zeros", [0, 0])
            ends, axes = (
                net.constant("no_rows", [0, self._heads.width]),
                net.constant("rows_and_width", [1, 2]),
            )
            self._no_keys = net.op("Slice", q, zeros, ends, axes, name="no_keys")
        return self._no_keys
