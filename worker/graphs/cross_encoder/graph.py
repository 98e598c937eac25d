"""
The graph of a cross-encoder, from its weights: pairs of texts in, a logit for each out.

    cross_encoder.onnx   tokens of many pairs, one after the other -> the logit of each pair

Matrix products run over the tokens of all pairs, packed without padding (M, D). Attention alone runs over rows of equal
length (B, S): `rows` holds the index of the token (of M) at each cell of the rows, `places` the index of the cell (of B
x S) of each token. Cells beyond the end of a row are masked.

Where the classifier reads the first token alone, the last block computes keys and values of all tokens, and everything
else for the first token of each pair: of six layers, that leaves out a seventh of the products.

Attention: onnxruntime's MultiHeadAttention and RotaryEmbedding (docs/ContribOperators.md).

Shapes: M tokens · B pairs · S length of a row · N heads · D width · F inner width.
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from worker.graphs.checkpoint_weights import Weights
from worker.graphs.cross_encoder.families import names_of, read_network
from worker.graphs.cross_encoder.network import ACTIVATIONS, EncoderBlock, EncoderNetwork
from worker.graphs.cross_encoder.weights import Array, CrossEncoderWeights
from worker.graphs.file_names import CROSS_ENCODER, WEIGHTS
from worker.graphs.graph_builder import CONTRIB, GraphBuilder
from worker.graphs.matrix_products import FloatProducts, Products, products_in
from worker.graphs.precision import Precision
from worker.graphs.weights import Store, WeightsFile

Linear = tuple[Array, Array | None]  # weight and bias


def write_cross_encoder(folder: Path, config: Mapping[str, Any], weights: Weights, *, precision: Precision) -> None:
    """Write the graph and its weights into `folder`.

    Raises ModelError for what is missing in the checkpoint or not supported. The same input gives the same bytes.
    """
    network = read_network(config)
    with WeightsFile(folder / WEIGHTS) as file:
        net = cross_encoder_graph(network, file, CrossEncoderWeights(weights, network), precision)
    (folder / CROSS_ENCODER).write_bytes(net.serialized())


def cross_encoder_graph(
    network: EncoderNetwork, store: Store, weights: CrossEncoderWeights, precision: Precision
) -> GraphBuilder:
    """ids (M,), places (M,) in B x S, rows (B, S), lengths (B,) of the pairs, firsts (B,): the first token of each;
    positions (M,) where they are learned, types (M,) where there are any -> logits (B,)."""
    net = GraphBuilder("cross_encoder", store)
    encoder = _Encoder(net, network, weights, precision)
    x = encoder.embed()
    last = len(network.blocks) - 1
    for number, block in enumerate(network.blocks):
        x = encoder.run_block(x, number, block, is_pooled=number == last and network.needs_first_alone)
    if names_of(network).final_norm is not None:
        x = encoder.normalize(x, str(names_of(network).final_norm))
    if not network.needs_first_alone:
        x = encoder.mean(x)
    net.output(encoder.classify(x), "logits", np.float32, ["B"])
    return net


class _Encoder:
    """The parts of the network."""

    def __init__(
        self, net: GraphBuilder, network: EncoderNetwork, weights: CrossEncoderWeights, precision: Precision
    ) -> None:
        self._net = net
        self._network = network
        self._weights = weights
        self._names = names_of(network)
        self._dtype = precision.float_dtype
        self._products = products_in(precision, mixed=True)
        self._pooled_products = products_in(precision, "pairs", mixed=True)  # of one row a pair
        # The head has a row a pair: in int8 it would save nothing, and cost exactness.
        self._head_products: Products = FloatProducts(Precision.FP32 if precision is Precision.INT8 else precision)
        self._masked = -3e4 if precision is Precision.FP16 else -1e30  # added to a score: the softmax then gives 0
        self._ids = net.input("ids", np.int64, ["M"])
        self._places = net.input("places", np.int64, ["M"])
        self._rows = net.input("rows", np.int64, ["B", "S"])
        self._lengths = net.input("lengths", np.int32, ["B"])
        self._firsts = net.input("firsts", np.int64, ["B"])

    def embed(self) -> str:
        """The normalized embeddings (M, D)."""
        net, network, weights = self._net, self._network, self._weights
        x = self._table("tokens", self._ids, weights.tokens)
        if network.token_types:
            types = self._table("types", net.input("types", np.int64, ["M"]), weights.types)
            x = net.op("Add", x, types, name="typed")
        if not network.is_rotary:
            places = self._table("positions", net.input("positions", np.int64, ["M"]), weights.positions)
            x = net.op("Add", x, places, name="placed")
        return self.normalize(x, self._names.embedding_norm)

    def run_block(self, x: str, number: int, block: EncoderBlock, *, is_pooled: bool) -> str:
        """(M, D) -> (M, D); with `is_pooled` -> (B, D), the first token of each pair."""
        net, names, network, name = self._net, self._names, self._network, f"blocks.{number}"
        attention_norm, outer_norm = names.attention_norm.format(number), names.outer_norm.format(number)
        read = self.normalize(x, attention_norm) if block.has_input_norm else x
        attended = self._attend(read, number, block, is_pooled=is_pooled)
        if is_pooled:
            x = net.op("Gather", x, self._firsts, name=f"{name}.firsts")
        x = net.op("Add", x, attended, name=f"{name}.attended_sum")
        if not network.is_pre_norm:
            x = self.normalize(x, attention_norm)
        read = self.normalize(x, outer_norm) if network.is_pre_norm else x
        x = net.op("Add", x, self._feed_forward(read, number, is_pooled=is_pooled), name=f"{name}.sum")
        return x if network.is_pre_norm else self.normalize(x, outer_norm)

    def normalize(self, x: str, norm: str) -> str:
        """Layer normalization; `norm`: its name in the checkpoint."""
        net, dtype, network = self._net, self._dtype, self._network
        inputs = [x, net.weight(f"{norm}.weight", lambda: self._weights.norm(norm)[0].astype(dtype))]
        if network.norm_bias:
            inputs.append(net.weight(f"{norm}.bias", lambda: _present(self._weights.norm(norm)[1]).astype(dtype)))
        return net.op("LayerNormalization", *inputs, name=norm, axis=-1, epsilon=network.epsilon)

    def mean(self, x: str) -> str:
        """The mean over the tokens of each pair: (M, D) -> (B, D), summed in float32."""
        net, last = self._net, self._net.constant("last", [-1])
        in_rows = net.op("Gather", x, self._rows, name="pooled_rows")  # (B, S, D)
        in_rows = net.op("Cast", in_rows, name="pooled_floats", to=1)
        lengths = net.op("Unsqueeze", self._lengths, last, name="lengths_column")  # (B, 1)
        columns = net.op("Cast", self._columns(), name="columns_int32", to=6)
        is_token = net.op("Less", columns, lengths, name="is_token")  # (B, S)
        is_token = net.op("Unsqueeze", is_token, last, name="is_token_column")
        zero = net.constant("zero_float", 0.0, np.float32)
        in_rows = net.op("Where", is_token, in_rows, zero, name="pooled_tokens")
        total = net.op("ReduceSum", in_rows, net.constant("along_row", [1]), name="pooled_sum", keepdims=0)
        count = net.op("Cast", lengths, name="lengths_float", to=1)
        mean = net.op("Div", total, count, name="pooled_mean")
        return net.op("CastLike", mean, x, name="pooled")

    def classify(self, x: str) -> str:
        """The head: (B, D) -> logits (B,) in float32."""
        net, names, network = self._net, self._names, self._network
        x = self._linear(
            self._head_products, x, "head", network.head_bias,
            lambda: self._weights.linear(names.head, network.width, network.width, has_bias=network.head_bias),
        )  # fmt: skip
        x = self._activate(x, network.head_activation, "head.activated")
        if names.head_norm is not None:
            x = self.normalize(x, names.head_norm)
        x = self._linear(
            self._head_products, x, "classifier", True,
            lambda: self._weights.linear(names.classifier, 1, network.width, has_bias=True),
        )  # fmt: skip
        x = net.op("Reshape", x, net.constant("flat", [-1]), name="flat_logits")
        return net.op("Cast", x, name="float_logits", to=1)

    def _attend(self, x: str, number: int, block: EncoderBlock, *, is_pooled: bool) -> str:
        """Self-attention: (M, D) -> (M, D), or (B, D)."""
        net, network, name = self._net, self._network, f"blocks.{number}"
        q, k, v = self._split_qkv(x, number, is_pooled=is_pooled)
        if block.theta is not None:
            k = self._rotate(k, block.theta, f"{name}.k_rotated")
            if not is_pooled:  # the first token has the position 0, which is not rotated
                q = self._rotate(q, block.theta, f"{name}.q_rotated")
        bias = "" if block.window is None else self._window_bias(block.window, is_pooled=is_pooled)
        attended = net.op(
            "MultiHeadAttention", q, k, v, "", self._lengths, *[bias] * bool(bias),
            name=f"{name}.attended", domain=CONTRIB, num_heads=network.heads, mask_filter_value=self._masked,
        )  # fmt: skip
        flat = net.op("Reshape", attended, net.constant("flat_rows", [-1, network.width]), name=f"{name}.attended_flat")
        if not is_pooled:
            flat = net.op("Gather", flat, self._places, name=f"{name}.attended_tokens")
        out = self._names.out.format(number)
        return self._linear(
            self._pooled_products if is_pooled else self._products, flat, f"{name}.out", network.attention_bias,
            lambda: self._weights.linear(out, network.width, network.width, has_bias=network.attention_bias),
        )  # fmt: skip

    def _split_qkv(self, x: str, number: int, *, is_pooled: bool) -> list[str]:
        """Queries, keys and values in rows (B, S, D); with `is_pooled` one query a row (B, 1, D)."""
        net, width, name = self._net, self._network.width, f"blocks.{number}"
        names = [f"{name}.{part}" for part in "qkv"]
        if not is_pooled:
            packed = self._linear_of_qkv(self._products, x, number, "qkv", 0, 3 * width)
            in_rows = net.op("Gather", packed, self._rows, name=f"{name}.qkv_rows")
            return net.ops("Split", in_rows, net.constant("thirds", [width] * 3), outputs=names, axis=2)
        firsts = net.op("Gather", x, self._firsts, name=f"{name}.read_firsts")
        q = self._linear_of_qkv(self._pooled_products, firsts, number, "first_q", 0, width)
        q = net.op("Unsqueeze", q, net.constant("along_row", [1]), name=names[0])
        packed = self._linear_of_qkv(self._products, x, number, "kv", width, 3 * width)
        in_rows = net.op("Gather", packed, self._rows, name=f"{name}.kv_rows")
        return [q, *net.ops("Split", in_rows, net.constant("halves", [width] * 2), outputs=names[1:], axis=2)]

    def _linear_of_qkv(self, products: Products, x: str, number: int, part: str, start: int, stop: int) -> str:
        """The outputs `start` to `stop` of the map that gives queries, keys and values."""

        def load() -> Linear:
            weight, bias = self._weights.qkv(number)
            return weight[start:stop], None if bias is None else bias[start:stop]

        return self._linear(products, x, f"blocks.{number}.{part}", self._network.attention_bias, load)

    def _feed_forward(self, x: str, number: int, *, is_pooled: bool) -> str:
        """(M, D) -> (M, D)."""
        net, network, name = self._net, self._network, f"blocks.{number}"
        products = self._pooled_products if is_pooled else self._products
        inner, outer = self._names.inner.format(number), self._names.outer.format(number)
        rows, has_bias = network.inner_width * (2 if network.is_gated else 1), network.inner_bias
        x = self._linear(
            products, x, f"{name}.inner", has_bias,
            lambda: self._weights.linear(inner, rows, network.width, has_bias=has_bias),
        )  # fmt: skip
        if network.is_gated:
            widths = net.constant("gated_widths", [network.inner_width] * 2)
            x, gate = net.ops("Split", x, widths, outputs=[f"{name}.input", f"{name}.gate"], axis=1)
            activated = self._activate(x, network.activation, f"{name}.activated")
            x, lowest = net.op("Mul", activated, gate, name=f"{name}.gated"), None
        else:
            x, lowest = self._activate(x, network.activation, f"{name}.activated"), ACTIVATIONS[network.activation][3]
        return self._linear(
            products, x, f"{name}.outer", has_bias,
            lambda: self._weights.linear(outer, network.width, network.inner_width, has_bias=has_bias),
            lowest=lowest,
        )  # fmt: skip

    def _linear(
        self,
        products: Products,
        x: str,
        name: str,
        has_bias: bool,
        load: Callable[[], Linear],
        *,
        lowest: float | None = None,
    ) -> str:
        bias = (lambda: _present(load()[1])) if has_bias else None
        return products.linear(self._net, x, name, lambda: load()[0], bias, lowest=lowest)

    def _activate(self, x: str, activation: str, name: str) -> str:
        kind, domain, attributes, _lowest = ACTIVATIONS[activation]
        return self._net.op(kind, x, name=name, domain=domain, **attributes)

    def _table(self, name: str, index: str, load: Callable[[], Array]) -> str:
        table = self._net.weight(f"embeddings.{name}", lambda: load().astype(self._dtype))
        return self._net.op("Gather", table, index, name=f"embedded.{name}")

    def _rotate(self, x: str, theta: float, name: str) -> str:
        """Rotary positions of rows (B, S, D) that begin at 0."""
        net = self._net
        tables = [
            net.weight(f"{part}.{theta:g}", functools.partial(self._rotations, theta, index))
            for index, part in enumerate(("cosines", "sines"))
        ]
        start = net.constant("start", [0])
        return net.op("RotaryEmbedding", x, start, *tables, name=name, domain=CONTRIB, num_heads=self._network.heads)

    def _rotations(self, theta: float, index: int) -> Any:
        return self._weights.rotations(theta)[index].astype(self._dtype)

    def _columns(self) -> str:
        """The column numbers of a row, 0 to S - 1: (S,)."""
        net, name = self._net, "columns"
        if name not in net:
            shape = net.op("Shape", self._rows, name="row_length", start=1, end=2)
            length = net.op("Squeeze", shape, name="row_length_scalar")
            net.op("Range", net.constant("zero", 0), length, net.constant("one_step", 1), name=name)
        return name

    def _window_bias(self, window: int, *, is_pooled: bool) -> str:
        """The bias that masks tokens further away than `window`: (1, 1, S, S), or (1, 1, 1, S) for the first token."""
        net, name = self._net, f"window.{window}{'.first' * is_pooled}"
        if name not in net:
            columns = self._columns()
            distance = columns
            if not is_pooled:
                column = net.op("Unsqueeze", columns, net.constant("last", [-1]), name=f"{name}.column")
                signed = net.op("Sub", column, columns, name=f"{name}.signed")
                distance = net.op("Abs", signed, name=f"{name}.distance")
            is_far = net.op("Greater", distance, net.constant(f"{name}.width", window), name=f"{name}.is_far")
            masked = net.constant("masked", self._masked, self._dtype)
            values = net.op("Where", is_far, masked, net.constant("seen", 0.0, self._dtype), name=f"{name}.values")
            axes = net.constant("leading_axes" + ".first" * is_pooled, [0, 1, 2] if is_pooled else [0, 1])
            net.op("Unsqueeze", values, axes, name=name)
        return name


def _present(bias: Array | None) -> Array:
    assert bias is not None
    return bias
