"""
The graph that tells which source tokens the decoder attends to at each token of given translations: the weights of
cross-attention, from which words are aligned.

It is the scoring body (`scoring`) up to the last layer that is asked for; the layers behind it are not run.

Shapes: B rows, each a sentence · S source length · T longest target · N heads · H head size.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.network import Seq2SeqNetwork
from worker.graphs.seq2seq.scoring import TargetLayers
from worker.graphs.weights import Store, WrittenWeights

_MASKED = -1e9  # added to the scores of padding


def rebuild_attention(
    file: Path, config: Mapping[str, Any], precision: Precision, layers: range, wanted: Collection[int]
) -> bytes:
    """The graph over the weights of the decoder in `file`. `layers`: of the decoder, or of the stage in `file`;
    `wanted`: some of these."""
    return attention_graph(read_network(config), WrittenWeights.read(file), precision, layers, wanted).serialized()


def attention_graph(
    network: Seq2SeqNetwork, store: Store, precision: Precision, layers: range, wanted: Collection[int]
) -> GraphBuilder:
    """The inputs of `scoring.body_graph` -> attention (B, T, S), float32: the mean over the heads of the weights of
    cross-attention in the layers `wanted`, at each cell of a row; it sums to 1 over the tokens of the source."""
    body = TargetLayers(network, store, precision, layers, "attention")
    net, last = body.net, max(wanted)
    x, found = body.begin(), []
    for layer in range(layers.start, last + 1):
        x = body.attend_to_targets(x, layer)
        q = body.query_of_source(x, layer)
        cross = body.source.borrow(layer, layer - layers.start)
        if layer in wanted:
            found.append(_weights(body, network, q, cross[0], layer))
        if layer < last:
            x = body.end_layer(x, q, cross, layer)
    mean = net.op("Mean", *found, name="attention.mean") if len(found) > 1 else found[0]
    net.output(mean, "attention", np.float32, ["B", "T", "S"])
    return net


def _weights(body: TargetLayers, network: Seq2SeqNetwork, q: str, key: str, layer: int) -> str:
    """Queries (B, T, N x H), keys (B, N, S, H) -> (B, T, S). In float32, since scores may exceed float16."""
    net, heads, name = body.net, network.decoder_heads, f"decoder.layers.{layer}.encoder_attn.weights"
    by_head = net.constant("by_head", [0, 0, heads.number, heads.size])
    q = net.op("Reshape", q, by_head, name=f"{name}.q")
    q = net.op("Transpose", q, name=f"{name}.q_by_head", perm=[0, 2, 1, 3])  # (B, N, T, H)
    key = net.op("Transpose", key, name=f"{name}.key", perm=[0, 1, 3, 2])  # (B, N, H, S)
    q, key = (net.op("Cast", x, name=f"{x}.float32", to=TensorProto.FLOAT) for x in (q, key))
    scale = net.constant(f"{name}.scale", heads.scale, np.float32)
    scores = net.op("MatMul", net.op("Mul", q, scale, name=f"{name}.scaled"), key, name=f"{name}.scores")
    mask = net.op("Cast", "source_mask", name=f"{name}.mask", to=TensorProto.FLOAT)  # (B, S)
    padding = net.op("Sub", net.constant("one_float", 1.0, np.float32), mask, name=f"{name}.padding")
    padding = net.op("Mul", padding, net.constant("masked", _MASKED, np.float32), name=f"{name}.bias")
    padding = net.op("Unsqueeze", padding, net.constant("head_and_query", [1, 2]), name=f"{name}.bias_by_head")
    scores = net.op("Add", scores, padding, name=f"{name}.masked_scores")  # (B, N, T, S)
    weights = net.op("Softmax", scores, name=f"{name}.by_head", axis=-1)
    return net.op("ReduceMean", weights, net.constant("head_axis", [1]), name=name, keepdims=0)
