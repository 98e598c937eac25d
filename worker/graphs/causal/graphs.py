"""
The graphs of a causal language model, from its weights and the description of its blocks.

    body.onnx   tokens of many sequences                 -> a hidden state for each
    head.onnx   hidden states and the id that came next  -> its log-probability; the logits never leave the graph

Matrix products run over the tokens of all sequences, packed without padding (M, D). Attention alone runs over rows of
equal length (B, S): `rows` holds the index of the token (of M) at each cell of the rows, `places` the index of the cell
(of B x S) of each token. Cells beyond the end of a row are ignored. There are three modes of attention, chosen by the
inputs:

    fresh     B rows with a past of length 0: each row begins a sequence
    extended  one row behind a past in the caller's buffer, which grows by the row
    shared    one row of several continuations behind the same past; `bias` (1, 1, S, P + S) masks them from each
              other, and `positions` restarts with each

Only `shared` needs a bias. With one, the kernel holds all scores (N x S x T) in memory at once, so it has a branch of
its own.

Structure: as `block` and `families` say. Attention: `attention`.

Shapes: M tokens · B rows · S their length · T = P + S, past and present · C capacity of the buffer · N heads ·
K key/value heads · H head size · F inner width · D width · V vocabulary.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from worker.graphs.causal.attention import Attention
from worker.graphs.causal.block import ACTIVATIONS
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.head import EMBEDDINGS, head_graph
from worker.graphs.causal.normalization import normalize
from worker.graphs.causal.scaled_weights import ScaledWeights
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.tensor_names import (
    AFTER_ATTENTION,
    AFTER_INNER,
    BEFORE_ATTENTION,
    BEFORE_INNER,
    DOWN,
    GATE,
    UP,
)
from worker.graphs.causal.weights import Array, CausalWeights
from worker.graphs.checkpoint_weights import Weights
from worker.graphs.embeddings import add_embeddings
from worker.graphs.file_names import BODY, HEAD, WEIGHTS
from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.matrix_products import Factors, Load, Products, products_in
from worker.graphs.precision import Precision
from worker.graphs.weights import Store, WeightsFile


def write_causal(
    folder: Path,
    config: Mapping[str, Any],
    weights: Weights,
    *,
    precision: Precision,
    scales: Mapping[str, Array] | None = None,
    factors: Factors | None = None,
) -> None:
    """Write body, head and their weights into `folder`. For int8: `scales`, of the channels that each product
    reads (`scaled_weights`), and `factors` what its weights are rounded by (`rounding.inverse_factor`).

    Raises ModelError for what is missing in the checkpoint or not supported. The same input gives the same bytes.
    """
    sizes = read_sizes(config)
    named = ScaledWeights(weights, sizes, scales) if scales else CausalWeights(weights, sizes)
    with WeightsFile(folder / WEIGHTS) as file:
        graphs = {
            BODY: body_graph(
                sizes, file, named, precision, products=products_in(precision, mixed=True, factors=factors)
            ),
            HEAD: head_graph(sizes, file, named, precision, factors),
        }
    for name, net in graphs.items():
        (folder / name).write_bytes(net.model().SerializeToString(deterministic=True))


def body_graph(
    sizes: CausalSizes,
    store: Store,
    weights: CausalWeights,
    precision: Precision,
    layers: range | None = None,
    products: Products | None = None,
) -> GraphBuilder:
    """ids (M,), rows (B, S), places (M,) in B x S, positions (B, S), ends (B,): past and own length of each row - 1,
    longest (1,): T, is_shared (), bias, past.LAYER.key and .value (B, K, C, H) -> hidden (M, D), present.LAYER.…

    `layers`: the layers of one stage; None for all. A stage without the first layer reads `residual` (M, D) in place of
    ids; one without the last layer outputs `next_residual` in place of hidden. Past and present number the layers of
    the stage from 0. `products`: None for the products that belong to the precision.
    """
    layers = range(sizes.layers) if layers is None else layers
    net = GraphBuilder("body", store)
    body = _Body(net, sizes, weights, precision, products or products_in(precision, mixed=True), layers)
    if layers.start == 0:
        x = body.embed(net.input("ids", np.int64, ["M"]))
    else:
        x = net.input("residual", body.dtype, ["M", sizes.width])
    for layer in layers:
        x = body.layer(x, layer, layer - layers.start)
    if layers.stop == sizes.layers:
        net.output(body.normalize_last(x), "hidden", body.dtype, ["M", sizes.width])
    else:
        net.output(x, "next_residual", body.dtype, ["M", sizes.width])
    return net


class _Body:
    """The embeddings, the layers, and the norm behind them."""

    def __init__(
        self,
        net: GraphBuilder,
        sizes: CausalSizes,
        weights: CausalWeights,
        precision: Precision,
        products: Products,
        layers: range,
    ) -> None:
        self.dtype = precision.float_dtype
        self._precision = precision
        self._net = net
        self._sizes = sizes
        self._block = sizes.block
        self._weights = weights
        self._products = products
        self._attention = Attention(net, sizes, weights, self._products, self.dtype, layers)

    def embed(self, ids: str) -> str:
        """(M,) -> (M, D)."""
        net, sizes, weights = self._net, self._sizes, self._weights
        shape = sizes.vocab_size, sizes.width
        x = add_embeddings(
            net, ids, EMBEDDINGS, shape, weights.embeddings, self._precision, weights.table_scales(), result="embedded"
        )
        if (scale := self._block.embedding_scale) != 1:
            x = net.op("Mul", x, net.constant("embedding_scale", scale, self.dtype), name="embedded_scaled")
        if sizes.has_learned_positions:
            rows = net.weight("position_rows", lambda: weights.learned_positions().astype(self.dtype))
            learned = net.op("Gather", rows, self._attention.token_positions(), name="learned_positions")
            x = net.op("Add", x, learned, name="embedded_in_places")
        if self._block.embedding_norm:
            x = self._normalize(x, "embedding_norm", weights.embedding_norm, weights.embedding_norm_bias)
        return x

    def layer(self, x: str, layer: int, cached: int) -> str:
        """(M, D) -> (M, D). `cached`: the number of the layer among those with a past."""
        net, block, name = self._net, self._block, f"layers.{layer}"
        normal = self._in_layer(x, layer, BEFORE_ATTENTION) if block.norms_before else x
        attended = self._attention.attend(normal, layer, cached)
        if block.norms_after:
            attended = self._in_layer(attended, layer, AFTER_ATTENTION)
        residual = net.op("Add", x, attended, name=f"{name}.attended_sum")
        if block.norms_of_sums:
            residual = self._in_layer(residual, layer, AFTER_ATTENTION)
        if not block.shares_norm:
            source = x if block.is_parallel else residual
            normal = self._in_layer(source, layer, BEFORE_INNER) if block.norms_before else source
        inner = self._gated(normal, layer) if block.is_gated else self._plain(normal, layer)
        if block.norms_after:
            inner = self._in_layer(inner, layer, AFTER_INNER)
        x = net.op("Add", residual, inner, name=f"{name}.sum")
        return self._in_layer(x, layer, AFTER_INNER) if block.norms_of_sums else x

    def normalize_last(self, x: str) -> str:
        """The norm behind the last layer, if there is one."""
        if not self._block.last_norm:
            return x
        return self._normalize(x, "norm", self._weights.last_norm, self._weights.last_norm_bias)

    def _in_layer(self, x: str, layer: int, role: str) -> str:
        weights = self._weights
        return self._normalize(
            x, f"layers.{layer}.{role}", lambda: weights.norm(layer, role), lambda: weights.norm_bias(layer, role)
        )

    def _normalize(self, x: str, name: str, factors: Load, addends: Load) -> str:
        scale = self._net.weight(f"{name}.weight", lambda: factors().astype(self.dtype))
        bias = None
        if self._block.norm_bias:
            bias = self._net.weight(f"{name}.bias", lambda: addends().astype(self.dtype))
        return normalize(self._net, self._block.norm, x, scale, bias, name, self._block.epsilon)

    def _gated(self, x: str, layer: int) -> str:
        """down(activation(gate(x)) * up(x)) (Shazeer 2020): (M, D) -> (M, D)."""
        net, products, name = self._net, self._products, f"layers.{layer}"
        gate = self._activate(self._inner(x, layer, GATE), f"{name}.gate")
        if self._block.inner_bias:
            gated = net.op("Mul", gate, self._inner(x, layer, UP), name=f"{name}.gated")
            return self._inner(gated, layer, DOWN)
        # down_proj is linear: row scales are applied to its output, which is about a fifth as wide as its input.
        up, scale = products.unscaled(net, x, f"{name}.{UP}", lambda: self._weights.inner(layer, UP))
        gated = net.op("Mul", gate, up, name=f"{name}.gated")
        return products.rescaled(net, gated, f"{name}.{DOWN}", lambda: self._weights.inner(layer, DOWN), scale)

    def _plain(self, x: str, layer: int) -> str:
        """down(activation(up(x))): (M, D) -> (M, D)."""
        active = self._activate(self._inner(x, layer, UP), f"layers.{layer}.active")
        return self._inner(active, layer, DOWN, lowest=ACTIVATIONS[self._block.activation].lowest)

    def _activate(self, x: str, name: str) -> str:
        kind = ACTIVATIONS[self._block.activation]
        return self._net.op(kind.operator, x, name=name, domain=kind.domain, **dict(kind.attributes))

    def _inner(self, x: str, layer: int, role: str, *, lowest: float | None = None) -> str:
        def bias() -> Array:
            return self._weights.inner_bias(layer, role)

        return self._products.linear(
            self._net,
            x,
            f"layers.{layer}.{role}",
            lambda: self._weights.inner(layer, role),
            bias if self._block.inner_bias else None,
            lowest=lowest,
        )
