"""
Tables of embeddings (V, D), of which a graph gathers a row for each token: in float, or in int8 with a scale a row.

In int8 the rows are mixed as the weights of products are, and a gathered row is mixed back (`worker.kernels.mixing`).
So a tied head reads the same bytes: its columns are the rows, with the same scales. Where the channels of the head are
scaled (`worker.graphs.causal.scaled_weights`), a gathered row is divided by their scales. A small table stays in float.

Shapes: M tokens · V vocabulary · D width.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.graphs.graph_builder import GraphBuilder
from worker.graphs.matrix_products import Load, QuantizedWeight
from worker.graphs.mixing import add_mixing_back
from worker.graphs.precision import Precision
from worker.graphs.rounding import Array, round_to_nearest, row_scales
from worker.kernels.mixing import can_be_mixed, mix

# Numbers of a table in int8, at least: less take up to 4 MB in float, and a step of a small model 4 % longer in int8
# (15 us of 420; demo-lm, 8 rows).
LEAST = 2**20
_AT_ONCE = 4096  # rows that are rounded, so that no copy of a whole table is in memory


def add_embeddings(
    net: GraphBuilder,
    ids: str,
    name: str,
    shape: tuple[int, int],
    load: Load,
    precision: Precision,
    channel_scales: Array | None = None,
    *,
    result: str,
) -> str:
    """ids (M,) -> rows (M, D) of the table `name`, as the tensor `result`. `load` gives the table, of this shape, in
    float32; `channel_scales` (D,) is by what it is multiplied before it is stored in int8.

    A table that the store has in float is read as it is: int8 models were written with such ones.
    """
    width = shape[1]
    integers, scales = _tensors(name, width)
    in_float = net.stores(name) or (math.prod(shape) < LEAST and not net.stores(integers))
    if precision is not Precision.INT8 or in_float:
        return net.op("Gather", net.weight(name, lambda: load().astype(precision.float_dtype)), ids, name=result)
    table = cache(lambda: _rounded_rows(load(), channel_scales))
    rows = net.op("Gather", net.weight(integers, lambda: table()[0]), ids, name=f"{result}.int8")
    scale = net.op("Gather", net.weight(scales, lambda: table()[1]), ids, name=f"{result}.scales")
    divisors = f"{name}.divisors"
    is_scaled = channel_scales is not None or net.stores(divisors)
    unmixed = f"{result}.scaled" if is_scaled else result
    if can_be_mixed(width):
        mixed = net.op("DequantizeLinear", rows, scale, name=f"{result}.mixed", axis=0)
        add_mixing_back(net, mixed, width, name=unmixed)
    else:
        net.op("DequantizeLinear", rows, scale, name=unmixed, axis=0)
    if not is_scaled:
        return result
    divisor = net.weight(divisors, _stored_before if channel_scales is None else channel_scales.copy)
    return net.op("Div", unmixed, divisor, name=result)


def has_rows(net: GraphBuilder, name: str, width: int, start: int) -> bool:
    """Whether the store has the table `name` in int8, or its part from the row `start` on."""
    integers, _scales = _tensors(name, width)
    return net.stores(integers) or net.stores(f"{integers}.{start}")


def rows_as_columns(net: GraphBuilder, product: str, name: str, width: int, start: int, stop: int) -> QuantizedWeight:
    """The rows `start` to `stop` of the table `name` in int8, which the store has, as the weight of a product."""
    integers, scales = (net.part(tensor, _stored_before, start, stop) for tensor in _tensors(name, width))
    # onnxruntime computes it once, when it opens the graph.
    if (columns := f"{product}.columns") not in net:
        net.op("Transpose", integers, name=columns, perm=[1, 0])
    return QuantizedWeight(product, columns, scales, width, can_be_mixed(width))


def _tensors(name: str, width: int) -> tuple[str, str]:
    """The names of the integers (V, D) and scales (V,) of a table in int8."""
    return f"{name}.mixed.int8" if can_be_mixed(width) else f"{name}.int8", f"{name}.scales"


def _rounded_rows(
    table: NDArray[np.float32], channel_scales: Array | None
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The rows of the table, times the scales of their channels, in int8: integers (V, D) and scales (V,)."""
    integers, scales = np.empty(table.shape, np.int8), np.empty(len(table), np.float32)
    for start in range(0, len(table), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        rows = table[part] if channel_scales is None else table[part] * channel_scales
        if can_be_mixed(table.shape[1]):
            rows = mix(rows)
        scales[part] = row_scales(rows)
        integers[part] = round_to_nearest(rows, scales[part]).T
    return integers, scales


def _stored_before() -> NDArray[Any]:
    raise AssertionError("the store has the tensors of the embeddings")
