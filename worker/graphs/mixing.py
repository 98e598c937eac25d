"""
Mixed rows (`worker.kernels.mixing`) as nodes of ONNX: two products with small matrices, where there are no kernels.

Knows: the matrices. Does not know: why rows are mixed. `worker.graphs.fusion.rows` finds these nodes again.
"""

import math

import numpy as np

from worker.graphs.graph_builder import GraphBuilder
from worker.kernels.mixing import Array, mix

MIXING = "mixing."  # the names of the matrices begin with it


def add_mixing(net: GraphBuilder, x: str, size: int) -> str:
    """The tensor x (M, K) mixed, by nodes of ONNX: a row seen as a matrix A x B becomes `left` (A, A) times it times
    `right` (B, B)."""
    left = net.weight(f"{MIXING}{size}.left", lambda: _left(size))
    return _multiplied(net, x, size, left, f"{x}.mixed")


def add_mixing_back(net: GraphBuilder, x: str, size: int, *, name: str) -> str:
    """Undo the mixing of the tensor x (M, K), as the tensor `name`."""
    left = net.weight(f"mixed_back.{size}.left", lambda: np.ascontiguousarray(_left(size).T))
    return _multiplied(net, x, size, left, name)


def _multiplied(net: GraphBuilder, x: str, size: int, left: str, name: str) -> str:
    """`left` times each row of x times `right`, which is its own inverse."""
    columns = _columns(size)
    right = net.weight(f"{MIXING}{size}.right", lambda: mix(np.eye(columns, dtype=np.float32)))
    in_matrix = net.constant(f"{MIXING}{size}.matrix", [-1, size // columns, columns])
    in_row = net.constant(f"{MIXING}{size}.row", [-1, size])
    matrix = net.op("Reshape", x, in_matrix, name=f"{name}.as_matrix")
    by_column = net.op("MatMul", matrix, right, name=f"{name}.right")
    by_both = net.op("MatMul", left, by_column, name=f"{name}.left")
    return net.op("Reshape", by_both, in_row, name=name)


def _columns(size: int) -> int:
    """B, near the root of K."""
    return min(size & -size, 1 << (size.bit_length() // 2))


def _left(size: int) -> Array:
    """The matrix `left` (A, A): how `mix` combines the A rows of a row seen as a matrix A x B."""
    columns = _columns(size)
    count = size // columns
    rows = np.zeros((count, size), np.float32)
    rows[np.arange(count), np.arange(count) * columns] = 1
    # The first column of each row's matrix: a column is spread evenly by `right`.
    taken = mix(rows).reshape(count, count, columns)[:, :, 0] * np.float32(math.sqrt(columns))
    return np.ascontiguousarray(taken.T)
