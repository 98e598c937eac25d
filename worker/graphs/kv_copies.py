"""
Graphs that copy keys and values on the device that holds them.

    select   rows of every tensor, in a new order                Gather along the first axis
    widen    the same rows with room for more positions          Pad
    place    cross keys and values of newly encoded sentences    Transpose, Pad; one tensor per key and value

Plain ONNX operators: the same graphs run on every provider, so tests on a CPU hold for a GPU.

Shapes: R rows before, M after · B sentences · N heads · C positions before, D after · H head size · S source length ·
K tensors: 2 for each layer, its key and its value.
"""

from typing import Any

import numpy as np

from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.weights import WrittenWeights

Dtype = type[np.floating[Any]]


def select_graph(tensors: int, heads: int, head_size: int, dtype: Dtype) -> bytes:
    """from.K (R, N, C, H), rows (M,) -> to.K (M, N, C, H): row i is the former row rows[i]."""
    net = _net("select")
    rows = net.input("rows", np.int64, ["M"])
    for index in range(tensors):
        tensor = net.input(f"from.{index}", dtype, ["R", heads, "C", head_size])
        net.op("Gather", tensor, rows, name=f"to.{index}", axis=0)
        net.output(f"to.{index}", f"to.{index}", dtype, ["M", heads, "C", head_size])
    return _bytes(net)


def widen_graph(tensors: int, heads: int, head_size: int, dtype: Dtype) -> bytes:
    """from.K (R, N, C, H), pads (8,) -> to.K (R, N, D, H): the same positions, zeros behind them."""
    net = _net("widen")
    pads = net.input("pads", np.int64, [8])
    for index in range(tensors):
        tensor = net.input(f"from.{index}", dtype, ["R", heads, "C", head_size])
        net.op("Pad", tensor, pads, name=f"to.{index}")
        net.output(f"to.{index}", f"to.{index}", dtype, ["R", heads, "D", head_size])
    return _bytes(net)


def place_graph(tensors: int, heads: int, head_size: int, dtype: Dtype) -> bytes:
    """cross (B, S, K, N, H), pads (10,) -> to.K (B, N, C, H): zeros behind the source.

    Zeros, because a product with uninitialized memory could be NaN even where it is masked.
    """
    net = _net("place")
    cross = net.input("cross", dtype, ["B", "S", tensors, heads, head_size])
    pads = net.input("pads", np.int64, [10])
    by_tensor = net.op("Transpose", cross, name="by_tensor", perm=[2, 0, 3, 1, 4])  # (K, B, N, S, H)
    padded = net.op("Pad", by_tensor, pads, name="padded")  # (K, B, N, C, H)
    for index in range(tensors):
        net.op("Gather", padded, net.constant(f"index.{index}", index), name=f"to.{index}", axis=0)
        net.output(f"to.{index}", f"to.{index}", dtype, ["B", heads, "C", head_size])
    return _bytes(net)


def _net(name: str) -> GraphBuilder:
    return GraphBuilder(name, WrittenWeights({}))  # no weights


def _bytes(net: GraphBuilder) -> bytes:
    return net.serialized()
