"""
The relative position bias of T5: a learned number for each head and each bucket of distances between a query and a key,
added to their score.

Near distances have a bucket each, farther ones share buckets that widen logarithmically; all beyond `max_distance` are
in the last. So a graph reads a short table by distance, cut off at `max_distance`, which is made of the buckets once.

Source: T5Attention.compute_bias and _relative_position_bucket in modeling_t5.py, transformers 4.57 (Raffel et al. 2020,
section 2.1).

Shapes: N heads · P max_distance · R rows · S source length · T tokens of a row.
"""

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.seq2seq.network import RelativePositions


def bias_by_distance(
    buckets: NDArray[np.float32], positions: RelativePositions, *, both_ways: bool
) -> NDArray[np.float32]:
    """The bias of each distance and head, from the biases of the `buckets` (buckets, N). With `both_ways` (2 P + 1, N):
    for key position minus query position, from -P to P. Else (P + 1, N): for query position minus key position, from 0
    to P."""
    farthest = positions.max_distance
    ahead = np.arange(-farthest, farthest + 1) if both_ways else -np.arange(farthest + 1)
    bias: NDArray[np.float32] = buckets[_buckets(ahead, positions, both_ways=both_ways)]
    return bias


class RelativeBias:
    """The bias of one side, which all its layers share; each form is computed once a call."""

    def __init__(self, net: GraphBuilder, table: str, positions: RelativePositions) -> None:
        """`table`: the tensor made by `bias_by_distance`."""
        self._net = net
        self._table = table
        self._farthest = positions.max_distance

    def within_sentences(self, length: str) -> str:
        """The bias between all tokens of a sentence, both ways: `length` (1,), S -> (1, N, S, S)."""
        net = self._net
        if (made := "sentence.bias") in net:
            return made
        farthest = net.constant("farthest", self._farthest)
        ahead = net.op("Neg", self._behind("sentence", length), name="sentence.ahead")
        near = net.op("Clip", ahead, net.constant("farthest_behind", -self._farthest), farthest, name="sentence.near")
        rows = net.op("Add", near, farthest, name="sentence.rows")
        return self._by_head(net.op("Gather", self._table, rows, name="sentence.biases"), "sentence")

    def of_prefixes(self) -> str:
        """The bias from each token of a row to the tokens before it: the input length (1,), T -> (1, N, T, T). Tokens
        after the query get the bias of distance 0; attention masks them."""
        if (made := "prefix.bias") in self._net:
            return made
        return self._by_head(self._of_behind(self._behind("prefix", "length"), "prefix"), "prefix")

    def of_step(self) -> str:
        """The bias from one token a row to the tokens before it: the inputs positions (R,) and longest (1,), T -> (R,
        N, 1, T)."""
        net = self._net
        if (made := "step.bias") in net:
            return made
        places = net.op("Cast", "positions", name="step.positions", to=TensorProto.INT64)
        here = net.op("Unsqueeze", places, net.constant("one_int", [1]), name="step.here")  # (R, 1)
        behind = net.op("Sub", here, self._places("longest", "step"), name="step.behind")  # (R, T)
        by_head = net.op("Transpose", self._of_behind(behind, "step"), name="step.by_head", perm=[0, 2, 1])
        return net.op("Unsqueeze", by_head, net.constant("query_axis", [2]), name=made)

    def _behind(self, name: str, length: str) -> str:
        """For T tokens, given as `length` (1,), how far token j is behind token i: (T, T)."""
        net, places = self._net, self._places(length, name)
        queries = net.op("Unsqueeze", places, net.constant("one_int", [1]), name=f"{name}.queries")
        return net.op("Sub", queries, places, name=f"{name}.behind")

    def _places(self, length: str, name: str) -> str:
        """0, 1, ... up to a length (1,)."""
        net = self._net
        whole = net.op("Cast", length, name=f"{name}.length", to=TensorProto.INT64)
        count = net.op("Squeeze", whole, name=f"{name}.count")
        return net.op("Range", net.constant("zero", 0), count, net.constant("one_step", 1), name=f"{name}.places")

    def _of_behind(self, behind: str, name: str) -> str:
        """(..., T) -> (..., T, N)."""
        net = self._net
        limits = net.constant("zero", 0), net.constant("farthest", self._farthest)
        near = net.op("Clip", behind, *limits, name=f"{name}.near")
        return net.op("Gather", self._table, near, name=f"{name}.biases")

    def _by_head(self, biases: str, name: str) -> str:
        """(T, T, N) -> (1, N, T, T)."""
        net = self._net
        by_head = net.op("Transpose", biases, name=f"{name}.by_head", perm=[2, 0, 1])
        return net.op("Unsqueeze", by_head, net.constant("zero_int", [0]), name=f"{name}.bias")


def _buckets(ahead: NDArray[np.int64], positions: RelativePositions, *, both_ways: bool) -> NDArray[np.int64]:
    """The bucket of each distance. Computed in float32 as in torch, so that a distance at the edge of a bucket falls to
    the same side."""
    number = positions.buckets // 2 if both_ways else positions.buckets
    first = np.where(ahead > 0, number, 0) if both_ways else 0
    distance = np.abs(ahead) if both_ways else np.maximum(-ahead, 0)
    exact = number // 2
    widening = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    steps = widening / np.float32(np.log(positions.max_distance / exact)) * np.float32(number - exact)
    far = np.minimum(exact + steps.astype(np.int64), number - 1)
    return first + np.where(distance < exact, distance, far)
