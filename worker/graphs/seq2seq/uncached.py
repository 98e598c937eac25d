"""
A decoder without a cache: every step computes all tokens of each row again.

A reference for the decoder with the cache: both must choose the same tokens, and the difference in time is what the
cache saves. The head reads only the last position, and cross keys and values come from the encoder in both, so the two
differ only in the cache of self-attention.

Shapes: R rows · B sentences (R / beams) · S source length · T tokens of a row, equally many in each · L layers ·
N heads · H head size · D width · V vocabulary of the head.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.matrix_products import products_in
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.block import MaskedCrossAttention, Seq2SeqBlock
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.graphs import head_rows_in
from worker.graphs.seq2seq.network import Seq2SeqNetwork
from worker.graphs.seq2seq.weights import Seq2SeqWeights
from worker.graphs.weights import Store, WrittenWeights


def rebuild_uncached(file: Path, config: Mapping[str, Any], precision: Precision, layers: range | None = None) -> bytes:
    """The graph over the weights of the decoder in `file`. `layers`: of the stage, if `file` is only a stage."""
    network, store = read_network(config), WrittenWeights.read(file)
    return uncached_graph(network, store, precision, head_bias="head.bias" in store, layers=layers).serialized()


def uncached_graph(
    network: Seq2SeqNetwork, store: Store, precision: Precision, *, head_bias: bool, layers: range | None = None
) -> GraphBuilder:
    """A graph over all tokens of all rows. Rows come in groups of equal size, which share a source. `layers`: the
    layers of one stage, as in `graphs.decoder_graph`; every stage gets the ids, of which stages after the first use
    only the shape.

    ids (R, T), ends (R,): T - 1, length (1,): T, and the inputs of `MaskedCrossAttention`
    -> logits of the next token (R, V), and the keys and values of all tokens (R, N, T, H)
    """
    net, products = GraphBuilder("prefix", store), products_in(precision, "all_rows")
    layers = range(network.decoder_layers) if layers is None else layers
    weights = Seq2SeqWeights({}, network, None)  # all tensors are in the store
    block = Seq2SeqBlock(net, products, network, weights, precision.float_dtype)
    ids = net.input("ids", np.int64, ["R", "T"])
    net.input("ends", np.int32, ["R"])
    net.input("length", np.int32, [1])
    source = MaskedCrossAttention(net, network.decoder_heads, block.dtype)
    shape = net.op("Shape", ids, name="ids.shape")
    length = net.op("Gather", shape, net.constant("one_int", [1]), name="prefix_length")
    by_row = net.op("Concat", shape, net.constant("minus_one", [-1]), name="by_row", axis=0)  # (R, T, -1)

    if layers.start == 0:
        x = block.add_first_positions(block.embed(ids, "decoder"), "decoder", length, "prefix.input")
        x = net.op("Reshape", x, block.rows_shape, name="prefix.x")  # (R x T, D)
        x = block.begin_layers(x, "decoder")
    else:
        x = block.residual("M")
    for cached, layer in enumerate(layers):
        name = f"decoder.layers.{layer}"
        attended = _attend_to_all_before(net, block, x, layer, cached, by_row)
        x = block.end_attention(x, attended, name, "self_attn")
        attended = block.attend_to_masked_source(x, layer, cached, source)
        x = block.end_attention(x, attended, name, "encoder_attn")
        x = block.feed_forward(x, name)
    if layers.stop < network.decoder_layers:
        net.output(x, "next_residual", block.residual_dtype, ["M", network.width])
        return net
    by_place = net.op("Reshape", x, by_row, name="prefix.by_row")  # (R, T, D)
    last = net.op("Gather", by_place, net.constant("last_place", -1), name="prefix.last", axis=1)  # (R, D)
    last = block.end_layers(last, "decoder")
    head = products_in(precision, "last_rows")
    rows = head_rows_in(store)
    logits, scales = head.head(net, last, rows, weights.head, weights.head_bias if head_bias else None)
    if scales:
        logits = net.op("Mul", logits, scales, name="logits.scaled")
    net.output(logits, "logits", block.dtype, ["R", "V"])
    return net


def _attend_to_all_before(net: GraphBuilder, block: Seq2SeqBlock, x: str, layer: int, cached: int, by_row: str) -> str:
    """Self-attention: every token attends to itself and those before it. Keys and values are outputs, for a search that
    goes on with a cache."""
    name = f"decoder.layers.{layer}"
    x = block.read(x, name, "self_attn")
    packed = block.linear(x, name, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")  # (R x T, 3 D)
    packed = net.op("Reshape", packed, by_row, name=f"{name}.qkv")  # (R, T, 3 D)
    attended = block.attend_to_all_before(packed, layer, [f"present.{cached}.{part}" for part in ("key", "value")])
    return net.op("Reshape", attended, block.attended_shape, name=f"{name}.attended_rows")
