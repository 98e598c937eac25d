"""
The graph that tells which source tokens the decoder attends to at each token of given translations: the weights of
cross-attention, from which words are aligned.

It is the scoring body (`scoring`) up to the last layer that is asked for; the layers behind it are not run. Of a single
head, no other head's weights are computed.

Shapes: B rows, each a sentence · S source length · T longest target · N heads · H head size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from onnx import TensorProto

from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.network import Seq2SeqNetwork
from worker.graphs.seq2seq.scoring import TargetLayers
from worker.graphs.weights import Store, WrittenWeights

_MASKED = -1e9  # added to the scores of padding


@dataclass(frozen=True, slots=True)
class WantedAttention:
    """Which weights of cross-attention a graph gives: of a head, of each head, or the mean of all heads and layers."""

    layers: tuple[int, ...]  # numbered as in the whole decoder
    head: int | None = None  # of the only layer
    by_head: bool = False  # each head of the only layer

    @classmethod
    def of(cls, text: str) -> Self:
        """What `str` gave."""
        layers, head = text.split("/")
        return cls(tuple(map(int, layers.split(","))), int(head) if head.isdecimal() else None, head == "each")

    def __str__(self) -> str:
        head = "each" if self.by_head else "mean" if self.head is None else self.head
        return f"{','.join(map(str, sorted(self.layers)))}/{head}"


def rebuild_attention(
    file: Path, config: Mapping[str, Any], precision: Precision, layers: range, wanted: WantedAttention
) -> bytes:
    """The graph over the weights of the decoder in `file`. `layers`: of the decoder, or of the stage in `file`, which
    has those of `wanted`."""
    return attention_graph(read_network(config), WrittenWeights.read(file), precision, layers, wanted).serialized()


def attention_graph(
    network: Seq2SeqNetwork, store: Store, precision: Precision, layers: range, wanted: WantedAttention
) -> GraphBuilder:
    """The inputs of `scoring.body_graph` -> attention (B, T, S), float32: the weights that are `wanted` at each cell of
    a row; of each head (B, N, T, S). They sum to 1 over the tokens of the source."""
    body = TargetLayers(network, store, precision, layers, "attention")
    net, last = body.net, max(wanted.layers)
    x, found = body.begin(), []
    for layer in range(layers.start, last + 1):
        x = body.attend_to_targets(x, layer)
        q = body.query_of_source(x, layer)
        cross = body.source.borrow(layer, layer - layers.start)
        if layer in wanted.layers:
            found.append(_weights(body, network, q, cross[0], layer, wanted))
        if layer < last:
            x = body.end_layer(x, q, cross, layer)
    mean = net.op("Mean", *found, name="attention.mean") if len(found) > 1 else found[0]
    by_head: Sequence[int | str] = [network.decoder_heads.number] if wanted.by_head else []
    net.output(mean, "attention", np.float32, ["B", *by_head, "T", "S"])
    return net


def _weights(body: TargetLayers, network: Seq2SeqNetwork, q: str, key: str, layer: int, wanted: WantedAttention) -> str:
    """Queries (B, T, N x H), keys (B, N, S, H) -> (B, T, S), or of each head (B, N, T, S). In float32, since scores may
    exceed float16."""
    net, heads, name = body.net, network.decoder_heads, f"decoder.layers.{layer}.encoder_attn.weights"
    num_heads = heads.number
    if (head := wanted.head) is not None:  # the rest is as of a layer with one head
        num_heads = 1
        ends = [
            net.constant(f"{name}.{end}", [at * heads.size]) for end, at in (("q_start", head), ("q_stop", head + 1))
        ]
        q = net.op("Slice", q, *ends, net.constant("width_axis", [2]), name=f"{name}.q_of_head")
        key = net.op("Gather", key, net.constant(f"{name}.head", [head]), name=f"{name}.key_of_head", axis=1)
    by_head = net.constant(f"{name}.heads", [0, 0, num_heads, heads.size])
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
    if wanted.by_head:
        return weights
    return net.op("ReduceMean", weights, net.constant("head_axis", [1]), name=name, keepdims=0)
