"""
The head of a causal language model: the log-probability of one given id per row.

    log p(id) = x[id] - log sum exp x

The vocabulary is processed in blocks whose logits fit into a processor's cache; all logits together would take 608 KB a
token (150,000 ids). The log-sum-exp of a block is computed as a logit minus its LogSoftmax, which onnxruntime computes
faster than ReduceLogSumExp.

Shapes: M rows · D width · V vocabulary · J blocks.
"""

import functools

import numpy as np
from onnx import TensorProto

from worker.graphs.causal_weights import Array, CausalSizes, CausalWeights
from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.matrix_products import quantize_rows, quantized_product
from worker.graphs.precision import Precision
from worker.graphs.weights import Store

BLOCK = 4096  # ids


def head_graph(sizes: CausalSizes, store: Store, weights: CausalWeights, precision: Precision) -> GraphBuilder:
    """hidden (M, D), targets (M,) -> log_probs (M,), float32."""
    net = GraphBuilder("head", store)
    dtype = precision.float_dtype
    hidden = net.input("hidden", dtype, ["M", sizes.width])
    targets = net.input("targets", np.int64, ["M"])
    blocks = _Blocks(net, hidden, sizes, weights, precision)
    last, size = net.constant("last_axis", [1]), net.constant("block_size", BLOCK)
    column = net.op("Unsqueeze", net.op("Mod", targets, size, name="column"), last, name="columns")
    block = net.op("Unsqueeze", net.op("Div", targets, size, name="block"), last, name="blocks")
    first = net.constant("first", [0])
    sums, found = [], []
    for number, start in enumerate(range(0, sizes.vocab_size, BLOCK)):
        name, stop = f"block.{number}", min(start + BLOCK, sizes.vocab_size)
        logits = blocks.logits(name, start, stop)  # (M, stop - start)
        log_probs = net.op("LogSoftmax", logits, name=f"{name}.log_probs", axis=-1)
        one, its_log_prob = (
            net.op("Gather", each, first, name=f"{name}.{what}", axis=1)
            for each, what in ((logits, "first_logit"), (log_probs, "first_log_prob"))
        )
        sums.append(net.op("Sub", one, its_log_prob, name=f"{name}.log_sum"))
        here = column
        if stop - start < BLOCK:  # an id outside of this block gets a wrong value here, and is taken from its own block
            here = net.op("Min", column, net.constant("last_column", [[stop - start - 1]]), name=f"{name}.columns")
        found.append(net.op("GatherElements", logits, here, name=f"{name}.found", axis=1))
    all_found = net.op("Concat", *found, name="all_found", axis=1)  # (M, J)
    target = net.op("GatherElements", all_found, block, name="target", axis=1)  # (M, 1)
    all_sums = net.op("Concat", *sums, name="all_log_sums", axis=1)
    total = net.op("ReduceLogSumExp", all_sums, last, name="log_sum", keepdims=1)  # (M, 1)
    log_prob = net.op("Sub", target, total, name="log_prob")
    net.output(net.op("Squeeze", log_prob, last, name="squeezed"), "log_probs", np.float32, ["M"])
    return net


class _Blocks:
    """Products of the hidden states with blocks of the head."""

    def __init__(
        self, net: GraphBuilder, hidden: str, sizes: CausalSizes, weights: CausalWeights, precision: Precision
    ) -> None:
        self._net = net
        self._hidden = hidden
        self._precision = precision
        self._dtype = precision.float_dtype
        self._rows = "embeddings" if sizes.tied_head else "head.rows"
        self._load = functools.cache(weights.head)  # loaded once for all blocks
        if precision is Precision.INT8:
            self._quantized, self._scale = quantize_rows(net, hidden)

    def logits(self, name: str, start: int, stop: int) -> str:
        """(M, stop - start), float32."""
        net = self._net
        if self._precision is Precision.INT8:
            # A product a block: each has its own scales.
            product = quantized_product(net, self._quantized, f"head.{start}", lambda: self._load()[start:stop])
            return net.op("Mul", product, self._scale, name=f"{name}.logits")
        rows = net.part(self._rows, self._whole, start, stop)
        if self._precision is Precision.FP32:
            return net.op("Gemm", self._hidden, rows, name=f"{name}.logits", transB=1)
        product = net.op("Gemm", self._hidden, rows, name=f"{name}.product", transB=1)
        return net.op("Cast", product, name=f"{name}.logits", to=TensorProto.FLOAT)

    def _whole(self) -> Array:
        return self._load().astype(self._dtype)
