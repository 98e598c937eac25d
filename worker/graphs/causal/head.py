"""
The head of a causal language model, in two graphs over the same weights:

    head     hidden states and one given id per row -> log p(id) = x[id] - log sum exp x
    logits   hidden states -> all logits x, for choosing the next token

In `head`, the vocabulary is processed in blocks whose logits fit into a processor's cache; all logits together would
take 608 KB a token (150,000 ids). The log-sum-exp of a block is computed as a logit minus its LogSoftmax, which
onnxruntime computes faster than ReduceLogSumExp.

Shapes: M rows · D width · V vocabulary · J blocks.
"""

import functools
from pathlib import Path

import numpy as np
from onnx import TensorProto

from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.weights import Array, CausalWeights
from worker.graphs.embeddings import has_rows, rows_as_columns
from worker.graphs.file_names import HEAD
from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.matrix_products import Factors, QuantizedWeight, quantize_rows, quantized_product, store_quantized
from worker.graphs.mixing import add_mixing
from worker.graphs.precision import Precision
from worker.graphs.weights import Store, WrittenWeights

BLOCK = 4096  # ids
EMBEDDINGS = "embeddings"  # the table
HEAD_PRODUCT = "head"
_BIAS = "head.bias"  # float32 in every precision


def head_graph(
    sizes: CausalSizes,
    store: Store,
    weights: CausalWeights,
    precision: Precision,
    factors: Factors | None = None,
) -> GraphBuilder:
    """hidden (M, D), targets (M,) -> log_probs (M,), float32. `factors`: for each product the factor by which a new
    int8 weight is rounded."""
    net = GraphBuilder("head", store)
    dtype = precision.float_dtype
    hidden = net.input("hidden", dtype, ["M", sizes.width])
    targets = net.input("targets", np.int64, ["M"])
    blocks = _Blocks(net, hidden, sizes, weights, precision, factors)
    last, size = net.constant("last_axis", [1]), net.constant("block_size", BLOCK)
    column = net.op("Unsqueeze", net.op("Mod", targets, size, name="column"), last, name="columns")
    block = net.op("Unsqueeze", net.op("Div", targets, size, name="block"), last, name="blocks")
    first = net.constant("first", [0])
    # onnxruntime computes nodes in the order in which the Concat behind the blocks needs them: all of one block, then
    # all of the next, so the logits of only one block are in memory at a time.
    parts = []  # for each block, the logit at the target's column and the log-sum-exp
    for number, start in enumerate(range(0, sizes.vocab_size, BLOCK)):
        name, stop = f"block.{number}", min(start + BLOCK, sizes.vocab_size)
        logits = blocks.logits(name, start, stop)  # (M, stop - start)
        log_probs = net.op("LogSoftmax", logits, name=f"{name}.log_probs", axis=-1)
        first_logit, its_log_prob = (
            net.op("Gather", scores, first, name=f"{name}.{kind}", axis=1)
            for scores, kind in ((logits, "first_logit"), (log_probs, "first_log_prob"))
        )
        log_sum = net.op("Sub", first_logit, its_log_prob, name=f"{name}.log_sum")
        here = column
        if stop - start < BLOCK:  # an id outside of this block gets a wrong value here, and is taken from its own block
            here = net.op("Min", column, net.constant("last_column", [[stop - start - 1]]), name=f"{name}.columns")
        target_logit = net.op("GatherElements", logits, here, name=f"{name}.found", axis=1)
        parts.append(net.op("Concat", target_logit, log_sum, name=f"{name}.found_and_sum", axis=1))  # (M, 2)
    shape = net.constant("parts_shape", [0, len(parts), 2])
    by_block = net.op("Reshape", net.op("Concat", *parts, name="parts", axis=1), shape, name="by_block")  # (M, J, 2)
    all_found, all_sums = (
        net.op("Gather", by_block, net.constant(f"part_{number}", number), name=name, axis=2)
        for number, name in enumerate(("all_found", "all_log_sums"))
    )
    target = net.op("GatherElements", all_found, block, name="target", axis=1)  # (M, 1)
    total = net.op("ReduceLogSumExp", all_sums, last, name="log_sum", keepdims=1)  # (M, 1)
    log_prob = net.op("Sub", target, total, name="log_prob")
    net.output(net.op("Squeeze", log_prob, last, name="squeezed"), "log_probs", np.float32, ["M"])
    return net


def rebuild_head(folder: Path, sizes: CausalSizes, precision: Precision) -> bytes:
    """The graph `head` as it is built now, over the weights of a model that `write_causal` wrote at any time."""
    net = head_graph(sizes, WrittenWeights.read(folder / HEAD), CausalWeights({}, sizes), precision)
    graph: bytes = net.model().SerializeToString(deterministic=True)
    return graph


def rebuild_logits(folder: Path, sizes: CausalSizes, precision: Precision) -> bytes:
    """The graph `logits` over the weights of a model that `write_causal` wrote."""
    net = logits_graph(sizes, WrittenWeights.read(folder / HEAD), precision)
    graph: bytes = net.model().SerializeToString(deterministic=True)
    return graph


def logits_graph(sizes: CausalSizes, store: Store, precision: Precision) -> GraphBuilder:
    """hidden (M, D) -> logits (M, V), float32; in int8 also scales (M, 1), by which each row is to be multiplied: the
    most likely id of a row does not depend on it, unless logits have a bias or a cap. `store` has the tensors of the
    graph `head`."""
    net = GraphBuilder("logits", store)
    hidden = net.input("hidden", precision.float_dtype, ["M", sizes.width])
    is_final = not sizes.block.head_bias and sizes.block.logit_cap is None
    scale = None
    if precision is Precision.INT8:
        blocks = _Blocks(net, hidden, sizes, CausalWeights({}, sizes), precision)
        starts = range(0, sizes.vocab_size, BLOCK)
        block_logits = [blocks.unscaled(start, min(start + BLOCK, sizes.vocab_size)) for start in starts]
        logits, scale = net.op("Concat", *block_logits, name="all", axis=1), blocks.scale
    else:
        rows = net.joined(rows_name(sizes), sizes.vocab_size)
        logits = net.op("Gemm", hidden, rows, name="product", transB=1)
        if precision is Precision.FP16:
            logits = net.op("Cast", logits, name="float32", to=TensorProto.FLOAT)
    if not is_final:
        logits = logits if scale is None else net.op("Mul", logits, scale, name="scaled")
        bias = net.joined(_BIAS, sizes.vocab_size) if sizes.block.head_bias else None
        logits = _finished(net, logits, sizes, bias, "final")
    net.output(logits, "logits", np.float32, ["M", sizes.vocab_size])
    if scale is not None and is_final:
        net.output(scale, "scales", np.float32, ["M", 1])
    return net


def rows_name(sizes: CausalSizes) -> str:
    """The name of the head's weight (V, D) in float."""
    return EMBEDDINGS if sizes.shares_table else "head.rows"


def _finished(net: GraphBuilder, logits: str, sizes: CausalSizes, bias: str | None, name: str) -> str:
    """Logits in float32, from the products of the states with the head, or with a block of it."""
    if bias is not None:
        logits = net.op("Add", logits, bias, name=f"{name}.biased")
    if (cap := sizes.block.logit_cap) is None:
        return logits
    limit = net.constant("logit_cap", cap, np.float32)
    bounded = net.op("Tanh", net.op("Div", logits, limit, name=f"{name}.share_of_cap"), name=f"{name}.bounded")
    return net.op("Mul", bounded, limit, name=f"{name}.capped")


class _Blocks:
    """Products of the hidden states with blocks of the head."""

    def __init__(
        self,
        net: GraphBuilder,
        hidden: str,
        sizes: CausalSizes,
        weights: CausalWeights,
        precision: Precision,
        factors: Factors | None = None,
    ) -> None:
        self._net = net
        self._hidden = hidden
        self._precision = precision
        self._dtype = precision.float_dtype
        self._rows = rows_name(sizes)
        self._sizes = sizes
        self._load = functools.cache(weights.head)  # loaded once for all blocks
        self._load_bias = weights.head_bias
        self._factor = None if factors is None else functools.partial(factors, HEAD_PRODUCT)
        if precision is Precision.INT8:
            first = self._stored(0, min(BLOCK, sizes.vocab_size))  # the other blocks are like it
            rows = add_mixing(net, hidden, sizes.width) if first.is_mixed else hidden
            self._quantized, self.scale = quantize_rows(net, rows)

    def logits(self, name: str, start: int, stop: int) -> str:
        """(M, stop - start), float32."""
        bias = None
        if self._sizes.block.head_bias:
            bias = self._net.part(_BIAS, self._load_bias, start, stop)
        return _finished(self._net, self._product(name, start, stop), self._sizes, bias, name)

    def _product(self, name: str, start: int, stop: int) -> str:
        net = self._net
        if self._precision is Precision.INT8:
            return net.op("Mul", self.unscaled(start, stop), self.scale, name=f"{name}.logits")
        rows = net.part(self._rows, self._whole, start, stop)
        if self._precision is Precision.FP32:
            return net.op("Gemm", self._hidden, rows, name=f"{name}.logits", transB=1)
        product = net.op("Gemm", self._hidden, rows, name=f"{name}.product", transB=1)
        return net.op("Cast", product, name=f"{name}.logits", to=TensorProto.FLOAT)

    def unscaled(self, start: int, stop: int) -> str:
        """(M, stop - start) in int8, to be multiplied by `scale` (M, 1)."""
        return quantized_product(self._net, self._quantized, self._stored(start, stop))

    def _stored(self, start: int, stop: int) -> QuantizedWeight:
        """The int8 weight of a block: rows of the table of embeddings, or a weight of the block's own if the head is
        not tied, or if the table is in float, as older int8 models have it."""
        net, sizes, name = self._net, self._sizes, f"head.{start}"
        if sizes.shares_table and has_rows(net, EMBEDDINGS, sizes.width, start):
            return rows_as_columns(net, name, EMBEDDINGS, sizes.width, start, stop)
        return store_quantized(net, name, lambda: self._load()[start:stop], mixed=True, factor=self._factor)

    def _whole(self) -> Array:
        return self._load().astype(self._dtype)
