"""
The graphs of a Marian model, from its weights: post-norm Transformer, sinusoidal positions.

    encoder.onnx   ids (B, S), rows of equal length           -> cross-attention keys and values of all decoder layers
    decoder.onnx   one token a row, each at its own position  -> logits

Self-attention writes into a buffer of the caller, which is past and present at once; cross-attention reads keys and
values from a buffer of the caller. Each row has its own length in both, so rows may begin and end at different steps,
and nothing is padded.

Structure: transformers' modeling_marian.py. Attention: onnxruntime's contrib operators GroupQueryAttention and
MultiHeadAttention (docs/ContribOperators.md).

Shapes: R rows · B sentences (R / beams) · S source length · C capacity of the cache · L layers · N heads ·
H head size · D width · V vocabulary of the head.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.graphs.checkpoint_weights import Weights
from worker.graphs.file_names import DECODER, ENCODER, SCREENED, WEIGHTS
from worker.graphs.graph_builder import CONTRIB, GraphBuilder, Shape
from worker.graphs.marian_weights import ACTIVATIONS, MarianSizes, MarianWeights
from worker.graphs.masked_cross_attention import MaskedCrossAttention
from worker.graphs.matrix_products import Int8Products, Products, products_in, rounding
from worker.graphs.precision import Precision
from worker.graphs.weights import Store, WeightsFile, WrittenWeights, read_graph

LARGE_HEAD = 4096  # ids; for a smaller head a second graph does not pay off
_HEAD_ROWS = ("head.rows", "decoder.embeddings", "embeddings")  # tensors that may hold the head


def write_marian(
    folder: Path,
    config: Mapping[str, Any],
    weights: Weights,
    *,
    precision: Precision,
    head_ids: Sequence[int] | None = None,
) -> None:
    """Write encoder, decoder and their weights into `folder`. `head_ids`: the target ids of the head; None: all.

    Raises ModelError for what is missing in the checkpoint or not supported. The same input gives the same bytes.
    """
    sizes = MarianSizes.read(config)
    named = MarianWeights(weights, sizes, head_ids)
    has_bias = bool(named.head_bias().any())
    graphs = {}
    with WeightsFile(folder / WEIGHTS) as file:
        graphs[ENCODER] = encoder_graph(sizes, file, named, precision)
        graphs[DECODER] = decoder_graph(sizes, file, named, precision, head_rows=named.head_rows, head_bias=has_bias)
        if precision is Precision.FP32 and not has_bias and len(named.head()) > LARGE_HEAD:
            graphs[SCREENED] = screened_decoder_graph(sizes, file, named)
    for name, net in graphs.items():
        (folder / name).write_bytes(net.model().SerializeToString(deterministic=True))


def rebuild_decoder(
    file: Path,
    config: Mapping[str, Any],
    precision: Precision,
    *,
    beams: int = 1,
    masked: bool = False,
    layers: range | None = None,
) -> bytes:
    """Another decoder over the weights of the graph in `file`, a decoder or a stage of one; for `beams`, `masked` and
    `layers` see `decoder_graph`."""
    net = decoder_over(WrittenWeights.read(file), config, precision, beams=beams, masked=masked, layers=layers)
    graph: bytes = net.model().SerializeToString(deterministic=True)
    return graph


def decoder_over(
    store: Store,
    config: Mapping[str, Any],
    precision: Precision,
    *,
    beams: int = 1,
    masked: bool = False,
    layers: range | None = None,
) -> GraphBuilder:
    """See `rebuild_decoder`."""
    sizes = MarianSizes.read(config)
    no_weights = MarianWeights({}, sizes, None)  # all tensors are in the store
    rows, has_bias = head_rows_in(store), "head.bias" in store
    return decoder_graph(
        sizes,
        store,
        no_weights,
        precision,
        head_rows=rows,
        head_bias=has_bias,
        beams=beams,
        masked=masked,
        layers=layers,
    )


def screen_bounds(file: Path) -> tuple[float, float]:
    """The error and the norm of the screened decoder in `file`: see `rounding`."""
    metadata = {entry.key: entry.value for entry in read_graph(file).metadata_props}
    return float(metadata["screen_error"]), float(metadata["screen_norm"])


def map_head(file: Path) -> NDArray[np.float32]:
    """The head of the decoder in `file`, in float32 (V, D), memory-mapped from the weights file."""
    store = WrittenWeights.read(file)
    return store.map(head_rows_in(store), file.parent)


def head_rows_in(store: Store) -> str:
    """The tensor that holds the head of a written model; empty where the head is in int8 alone."""
    return next((name for name in _HEAD_ROWS if name in store), "")


def encoder_graph(sizes: MarianSizes, store: Store, weights: MarianWeights, precision: Precision) -> GraphBuilder:
    """All tokens of all sentences at once; the sentences of a call have equal length.

    ids (B, S) -> cross (B, S, 2 L, N, H): key and value of layer 0, of layer 1, ...
    """
    net, products = GraphBuilder("encoder", store), products_in(precision)
    block = Block(net, products, sizes, weights, precision.float_dtype)
    ids = net.input("ids", np.int64, ["B", "S"])
    shape = net.op("Shape", ids, name="ids.shape")
    length = net.op("Gather", shape, net.constant("one_int", [1]), name="source_length")
    embedded = block.embed(ids, "encoder")  # (B, S, D)
    table = net.weight("positions", lambda: weights.positions().astype(block.dtype))
    positions = net.op("Slice", table, net.constant("zero_int", [0]), length, name="source_positions")
    x = net.op("Reshape", net.op("Add", embedded, positions, name="encoder.input"), block.rows_shape, name="encoder.x")
    sentences = net.op("Concat", shape, net.constant("minus_one", [-1]), name="sentences_shape", axis=0)  # (B, S, -1)
    for layer in range(sizes.encoder_layers):
        name = f"encoder.layers.{layer}"
        attended = block.attend_to_all(x, name, sentences)
        x = block.end_attention(x, attended, name, "self_attn")
        x = block.feed_forward(x, name)
    block.cross_keys_and_values(x, shape)
    return net


def decoder_graph(
    sizes: MarianSizes,
    store: Store,
    weights: MarianWeights,
    precision: Precision,
    *,
    head_rows: str,
    head_bias: bool,
    beams: int = 1,
    masked: bool = False,
    layers: range | None = None,
) -> GraphBuilder:
    """One token a row. Rows come in groups of `beams` that share a source, and with it cross keys and values.

    `masked`: groups of any size; the inputs of `MaskedCrossAttention` replace source_lengths and longest_source.
    `layers`: those of a stage; None: all. A stage that does not begin with the first reads `residual` (R, D) in place
    of ids; one that does not end with the last gives `next_residual` in place of logits. Past and cross count its own
    layers, from 0.

    ids (R,), positions (R,): number of cached tokens of the row, longest (1,): the greatest of them + 1,
    source_lengths (B,): S - 1 of each sentence, longest_source (1,): the greatest S, past and cross
    -> logits (R, V), and in int8 scales (R, 1), the factors of the logits
    """
    net, products = GraphBuilder("decoder", store), products_in(precision)
    layers = range(sizes.decoder_layers) if layers is None else layers
    x = _decoder_layers(net, products, sizes, weights, precision, beams, masked, layers)
    if layers.stop < sizes.decoder_layers:
        net.output(x, "next_residual", precision.float_dtype, ["R", sizes.width])
        return net
    logits, scales = products.head(net, x, head_rows, weights.head, weights.head_bias if head_bias else None)
    in_int8 = precision is Precision.INT8
    num_ids = store.tensor("head.int8").dims[1] if in_int8 else store.tensor(head_rows).dims[0]
    net.output(logits, "logits", precision.float_dtype, ["R", num_ids])
    if scales:
        net.output(scales, "scales", np.float32, ["R", 1])
    return net


def screened_decoder_graph(
    sizes: MarianSizes, store: Store, weights: MarianWeights, layers: range | None = None
) -> GraphBuilder:
    """The decoder in float32, with the head in int8: it narrows the ids down to the few that can be the best.

    Besides logits and scales it outputs the hidden states (R, D), to compute the logits of those few exactly. The
    metadata bound the error of a logit: screen_error and screen_norm, see `rounding`; those of a stage, the `layers` up
    to the last, are left to the caller.
    """
    net, products = GraphBuilder("screened", store), products_in(Precision.FP32)
    own = range(sizes.decoder_layers) if layers is None else layers
    x = _decoder_layers(net, products, sizes, weights, Precision.FP32, beams=1, masked=False, layers=own)
    logits, scales = Int8Products().head(net, x, "", weights.head, None)
    assert scales is not None
    net.output(logits, "logits", np.float32, ["R", store.tensor("head.int8").dims[1]])
    net.output(scales, "scales", np.float32, ["R", 1])
    net.output(x, "hidden", np.float32, ["R", sizes.width])
    if layers is None:
        error, norm = rounding(weights.head())
        net.metadata.update(screen_error=repr(error), screen_norm=repr(norm))
    return net


def _decoder_layers(
    net: GraphBuilder,
    products: Products,
    sizes: MarianSizes,
    weights: MarianWeights,
    precision: Precision,
    beams: int,
    masked: bool,
    layers: range,
) -> str:
    """Add the inputs and these layers of the decoder; the hidden states (R, D), or the residual for the next layer."""
    block = Block(net, products, sizes, weights, precision.float_dtype)
    x = net.input("ids", np.int64, ["R"]) if layers.start == 0 else block.residual("R")
    net.input("positions", np.int32, ["R"])
    net.input("longest", np.int32, [1])
    source = MaskedCrossAttention(net, sizes, block.dtype) if masked else None
    if source is None:
        net.input("source_lengths", np.int32, ["B"])
        net.input("longest_source", np.int32, [1])
    if layers.start == 0:
        table = net.weight("positions_table", lambda: weights.positions().astype(block.dtype))
        positions = net.op("Gather", table, "positions", name="decoder.positions")  # (R, D)
        x = net.op("Add", block.embed(x, "decoder"), positions, name="decoder.x")
    for cached, layer in enumerate(layers):
        name = f"decoder.layers.{layer}"
        attended = block.attend_to_past(x, layer, cached)
        x = block.end_attention(x, attended, name, "self_attn")
        if source is None:
            attended = block.attend_to_source(x, layer, cached, beams)
        else:
            attended = block.attend_to_masked_source(x, layer, cached, source)
        x = block.end_attention(x, attended, name, "encoder_attn")
        x = block.feed_forward(x, name)
    return x


class Block:
    """The parts of encoder and decoder layers. A row is a token: (M, D)."""

    def __init__(
        self,
        net: GraphBuilder,
        products: Products,
        sizes: MarianSizes,
        weights: MarianWeights,
        dtype: np.dtype[Any],
    ) -> None:
        self.dtype = dtype
        self.rows_shape = net.constant("rows_shape", [-1, sizes.width])
        self.attended_shape = net.constant("attended_shape", [-1, sizes.attention_width])
        self._net = net
        self._products = products
        self._sizes = sizes
        self._weights = weights
        self._no_keys = ""

    def residual(self, rows: str) -> str:
        """The input that a stage reads in place of ids: (rows, D)."""
        return self._net.input("residual", self.dtype, [rows, self._sizes.width])

    def embed(self, ids: str, side: str) -> str:
        """ids (...) -> (..., D)."""
        net, weights = self._net, self._weights
        name = "embeddings" if self._sizes.shared_embeddings else f"{side}.embeddings"
        table = net.weight(name, lambda: weights.embeddings(side).astype(self.dtype))
        found = net.op("Gather", table, ids, name=f"{side}.found")
        scale = net.constant("embedding_scale", self._sizes.scale, self.dtype)
        return net.op("Mul", found, scale, name=f"{side}.embedded")

    def linear(self, x: str, layer: str, *names: str, lowest: float | None = None) -> str:
        """One product for several linear maps of the same input; `lowest`: a lower bound of `x`."""
        load, name = self._weights.layer, f"{layer}.{'_'.join(names)}"
        return self._products.linear(
            self._net, x, name, lambda: load(layer, *names)[0], lambda: load(layer, *names)[1], lowest=lowest
        )

    def add_and_normalize(self, x: str, change: str, norm: str) -> str:
        """Residual connection, then layer normalization."""
        net, weights = self._net, self._weights
        scale = net.weight(f"{norm}.weight", lambda: weights.one(f"{norm}.weight").astype(self.dtype))
        bias = net.weight(f"{norm}.bias", lambda: weights.one(f"{norm}.bias").astype(self.dtype))
        total = net.op("Add", x, change, name=f"{norm}.sum")
        return net.op("LayerNormalization", total, scale, bias, name=norm, axis=-1, epsilon=1e-5)

    def end_attention(self, x: str, attended: str, layer: str, kind: str) -> str:
        """Output projection, residual connection and normalization. `kind`: self_attn or encoder_attn."""
        return self.add_and_normalize(x, self.linear(attended, layer, f"{kind}.out_proj"), f"{layer}.{kind}_layer_norm")

    def feed_forward(self, x: str, layer: str) -> str:
        """Two products with the activation between them, residual connection, normalization."""
        inner = self._activate(self.linear(x, layer, "fc1"), f"{layer}.activated")
        outer = self.linear(inner, layer, "fc2", lowest=ACTIVATIONS[self._sizes.activation])
        return self.add_and_normalize(x, outer, f"{layer}.final_layer_norm")

    def attend_to_all(self, x: str, layer: str, sentences: str) -> str:
        """Self-attention of the encoder: every token attends to the whole sentence."""
        net, sizes = self._net, self._sizes
        packed = self.linear(x, layer, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")  # (B x S, 3 D)
        names = [f"{layer}.{part}" for part in ("q", "k", "v")]
        parts = net.ops("Split", packed, net.constant("thirds", [sizes.attention_width] * 3), outputs=names, axis=1)
        q, k, v = (net.op("Reshape", part, sentences, name=f"{part}.sentences") for part in parts)  # (B, S, D)
        attended = net.op(
            "MultiHeadAttention", q, k, v,
            name=f"{layer}.attended", domain=CONTRIB, num_heads=sizes.heads, scale=sizes.attention_scale,
        )  # fmt: skip
        return net.op("Reshape", attended, self.attended_shape, name=f"{layer}.attended_rows")

    def attend_to_past(self, x: str, layer: int, cached: int) -> str:
        """Self-attention of the decoder: one new token a row, whose key and value go into the cache at its position.
        `cached`: the number of the layer among those with a past, as in the next methods."""
        net, name = self._net, f"decoder.layers.{layer}"
        packed = self.linear(x, name, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")  # (R, 3 D)
        packed = net.op("Unsqueeze", packed, net.constant("one_int", [1]), name=f"{name}.qkv")  # (R, 1, 3 D)
        past = self._borrow(f"past.{cached}", f"present.{cached}", "R", "C")
        attended, *_present = net.ops(
            "GroupQueryAttention", packed, "", "", *past, "positions", "longest",
            outputs=[f"{name}.attended", f"present.{cached}.key", f"present.{cached}.value"],
            domain=CONTRIB, num_heads=self._sizes.heads, kv_num_heads=self._sizes.heads,
            scale=self._sizes.attention_scale,
        )  # fmt: skip
        return net.op("Reshape", attended, self.attended_shape, name=f"{name}.attended_rows")

    def attend_to_source(self, x: str, layer: int, cached: int, beams: int) -> str:
        """Cross-attention. The beams of a sentence are query heads that share a key/value head.

        With a query of one token and no new keys, GroupQueryAttention reads the cache alone, up to the length of each
        sentence.
        """
        net, sizes, name = self._net, self._sizes, f"decoder.layers.{layer}.encoder_attn"
        q = self.linear(x, f"decoder.layers.{layer}", "encoder_attn.q_proj")  # (R, D)
        if beams > 1:  # (B, beams, N, H) -> (B, N, beams, H)
            q = net.op(
                "Reshape", q, net.constant("by_beam", [-1, beams, sizes.heads, sizes.head_size]), name=f"{name}.by_beam"
            )
            q = net.op("Transpose", q, name=f"{name}.by_head", perm=[0, 2, 1, 3])
        q = net.op("Reshape", q, net.constant("queries", [-1, 1, beams * sizes.attention_width]), name=f"{name}.q")
        no_keys = self._no_new_keys(q)  # (B, 0, D)
        cross = self._borrow(f"cross.{cached}", f"lent.{cached}", "B", "S")
        attended, *_lent = net.ops(
            "GroupQueryAttention", q, no_keys, no_keys, *cross, "source_lengths", "longest_source",
            outputs=[f"{name}.attended", f"lent.{cached}.key", f"lent.{cached}.value"],
            domain=CONTRIB, num_heads=sizes.heads * beams, kv_num_heads=sizes.heads, scale=sizes.attention_scale,
        )  # fmt: skip
        if beams > 1:
            attended = net.op(
                "Reshape", attended, net.constant("by_kv_head", [-1, sizes.heads, beams, sizes.head_size]),
                name=f"{name}.attended_by_head",
            )  # fmt: skip
            attended = net.op("Transpose", attended, name=f"{name}.attended_by_beam", perm=[0, 2, 1, 3])
        return net.op("Reshape", attended, self.attended_shape, name=f"{name}.attended_rows")

    def attend_to_masked_source(self, x: str, layer: int, cached: int, source: MaskedCrossAttention) -> str:
        """Cross-attention over padded sources."""
        q = self.linear(x, f"decoder.layers.{layer}", "encoder_attn.q_proj")
        name = f"decoder.layers.{layer}.encoder_attn.attended_rows"
        return self._net.op("Reshape", source.attend(q, cached), self.attended_shape, name=name)

    def cross_keys_and_values(self, x: str, shape: str) -> None:
        """The output `cross` (B, S, 2 L, N, H): keys and values of all decoder layers, in one product."""
        net, sizes, weights = self._net, self._sizes, self._weights

        def load() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            layers = (
                weights.layer(f"decoder.layers.{layer}", "encoder_attn.k_proj", "encoder_attn.v_proj")
                for layer in range(sizes.decoder_layers)
            )
            matrices, biases = zip(*layers, strict=True)
            return np.concatenate(matrices), np.concatenate(biases)

        packed = self._products.linear(net, x, "packed_cross", lambda: load()[0], lambda: load()[1])  # (B x S, 2 L D)
        axes = [2 * sizes.decoder_layers, sizes.heads, sizes.head_size]
        cross_shape = net.op("Concat", shape, net.constant("cross_axes", axes), name="cross_shape", axis=0)
        # Not transposed here (5 % of a call): the copy into the slots does it on the way.
        net.output(net.op("Reshape", packed, cross_shape, name="cross"), "cross", self.dtype, ["B", "S", *axes])

    def _activate(self, x: str, name: str) -> str:
        match self._sizes.activation:
            case "relu":
                return self._net.op("Relu", x, name=name)
            case "gelu":
                return self._net.op("Gelu", x, name=name)
            case _:
                return self._net.op("QuickGelu", x, name=name, domain=CONTRIB, alpha=1.0)

    def _borrow(self, past: str, present: str, rows: str, length: str) -> tuple[str, str]:
        """Inputs for keys and values in the caller's buffer, and outputs that the caller binds to the same buffer."""
        shape: Shape = [rows, self._sizes.heads, length, self._sizes.head_size]
        for part in ("key", "value"):
            self._net.input(f"{past}.{part}", self.dtype, shape)
            self._net.output(f"{present}.{part}", f"{present}.{part}", self.dtype, shape)
        return f"{past}.key", f"{past}.value"

    def _no_new_keys(self, q: str) -> str:
        """An empty tensor (B, 0, D), B as in `q`; shared by all layers."""
        if not self._no_keys:
            net, zeros = self._net, self._net.constant("zeros", [0, 0])
            ends, axes = (
                net.constant("no_rows", [0, self._sizes.attention_width]),
                net.constant("rows_and_width", [1, 2]),
            )
            self._no_keys = net.op("Slice", q, zeros, ends, axes, name="no_keys")
        return self._no_keys
