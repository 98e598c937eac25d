"""
Matrix products of activations with weights, in float or in int8.

Knows: how a product is computed. Does not know: which layer a product belongs to. Activations are (M, K), one token a
row; weights are (N, K) of y = x W^T + b, as in Hugging Face checkpoints.

Figures: M = 64, K = 512, N = 512, one core of an Intel Xeon with AMX, onnxruntime 1.31.1: float32 0.208 ms, int8
(u8 x s8) 0.028 ms. (s8 x s8 has no fast kernel there: 1.47 ms; u8 x u8 0.22 ms.)
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.graphs.graph_builder import CONTRIB, GraphBuilder
from worker.graphs.mixing import add_mixing
from worker.graphs.precision import Precision
from worker.graphs.rounding import Array, round_by_moments, round_to_nearest, row_scales
from worker.kernels.mixing import can_be_mixed, mix

Load = Callable[[], NDArray[Any]]

# The name of a product -> `worker.graphs.rounding.inverse_factor` of the second moments of the rows that it reads,
# mixed if they can be; None if no moments were measured.
Factors = Callable[[str], Array | None]

_TINY = 1e-20  # lower bound of a row's largest absolute value: a row may be all zeros
_ZERO_POINT = 128  # of uint8 activations: 1 .. 255 stand for -127 .. 127


class Products(Protocol):
    """One way to compute y = x W^T + b."""

    def linear(
        self, net: GraphBuilder, x: str, name: str, weight: Load, bias: Load | None, *, lowest: float | None = None
    ) -> str:
        """(M, K) -> (M, N), as the tensor `name`. `weight` loads (N, K) and `bias` (N,), in float32.

        `lowest`: a lower bound of `x`, as after an activation; None: unknown.
        """

    def unscaled(self, net: GraphBuilder, x: str, name: str, weight: Load) -> tuple[str, str | None]:
        """(M, K) -> (M, N), and the factor of each row that is not yet applied (M, 1); None: there is none."""

    def rescaled(self, net: GraphBuilder, x: str, name: str, weight: Load, scale: str | None) -> str:
        """(M, K) -> (M, N) of an `x` that `unscaled` gave, each row multiplied by its factor in `scale`."""

    def head(self, net: GraphBuilder, x: str, rows: str, weight: Load, bias: Load | None) -> tuple[str, str | None]:
        """(M, K) -> logits (M, V), and the factor of each row that is not yet applied (M, 1); None: there is none.

        `rows`: the name under which the weight (V, K) is stored in float, perhaps as a table of embeddings.
        """


def products_in(
    precision: Precision, rows: str = "rows", *, mixed: bool = False, factors: Factors | None = None
) -> Products:
    """The products of one graph in a precision; `rows` names M, where a graph has products of different M. `mixed`:
    whether new products in int8 mix their rows (`worker.kernels.mixing`); stored ones are as they were written.
    `factors`: how new weights in int8 are rounded; None: to the nearest step."""
    if precision is Precision.INT8:
        return Int8Products(rows, mixed=mixed, factors=factors)
    return FloatProducts(precision)


class FloatProducts:
    """Products in float32 or float16."""

    def __init__(self, precision: Precision) -> None:
        self._dtype = precision.float_dtype

    def linear(
        self, net: GraphBuilder, x: str, name: str, weight: Load, bias: Load | None, *, lowest: float | None = None
    ) -> str:
        matrix = net.weight(f"{name}.weight", lambda: np.ascontiguousarray(weight().T.astype(self._dtype)))  # (K, N)
        if bias is None:
            return net.op("MatMul", x, matrix, name=name)
        product = net.op("MatMul", x, matrix, name=f"{name}.product")
        return net.op("Add", product, net.weight(f"{name}.bias", lambda: bias().astype(self._dtype)), name=name)

    def unscaled(self, net: GraphBuilder, x: str, name: str, weight: Load) -> tuple[str, str | None]:
        return self.linear(net, x, name, weight, None), None

    def rescaled(self, net: GraphBuilder, x: str, name: str, weight: Load, scale: str | None) -> str:
        assert scale is None, name
        return self.linear(net, x, name, weight, None)

    def head(self, net: GraphBuilder, x: str, rows: str, weight: Load, bias: Load | None) -> tuple[str, str | None]:
        inputs = [x, net.weight(rows, lambda: weight().astype(self._dtype))]
        if bias is not None:
            inputs.append(net.weight("head.bias", lambda: bias().astype(self._dtype)))
        return net.op("Gemm", *inputs, name="head", transB=1), None


class ReadProducts(FloatProducts):
    """Products in float32 that record the tensors that they read, and their weights."""

    def __init__(self) -> None:
        super().__init__(Precision.FP32)
        self.inputs: dict[str, str] = {}  # by product, the tensor (M, K)
        self.weights: dict[str, Load] = {}  # by product, (N, K)

    def linear(
        self, net: GraphBuilder, x: str, name: str, weight: Load, bias: Load | None, *, lowest: float | None = None
    ) -> str:
        self.inputs[name] = x
        self.weights[name] = weight
        return super().linear(net, x, name, weight, bias, lowest=lowest)

    def show(self, net: GraphBuilder) -> list[str]:
        """Make the recorded tensors outputs of the graph; return their names."""
        names = list(dict.fromkeys(self.inputs.values()))
        for name in names:
            net.output(name, name, np.float32, ["M", None])
        return names


class Int8Products:
    """Weights are scaled per column, activations per row, so that no row depends on the rest of the batch.

        q = round(x / s) + 128          s = max |x| / 127 of the row
        y = (q - 128) Q^T * c * s + b   Q = round(W / c), c = max |W| / 127 of the column

    Where rows are `mixed`, x and W stand for x O and W O (`worker.kernels.mixing`), whose product is the same.

    As in CTranslate2. DynamicQuantizeMatMul, with one scale for the whole tensor, takes 38 us for 64 x 512 x 512 and
    this 59 us, but there a row changes with the other rows.
    """

    def __init__(self, rows: str = "rows", *, mixed: bool = False, factors: Factors | None = None) -> None:
        self._rows = rows
        self._mixed = mixed
        self._factors = factors
        self._quantized: dict[tuple[str, bool], tuple[str, str]] = {}  # by activation: several products share one

    def linear(
        self, net: GraphBuilder, x: str, name: str, weight: Load, bias: Load | None, *, lowest: float | None = None
    ) -> str:
        unscaled, scale = self._multiply(net, x, name, weight, lowest)
        if bias is None:
            return net.op("Mul", unscaled, scale, name=name)
        scaled = net.op("Mul", unscaled, scale, name=f"{name}.scaled")
        return net.op("Add", scaled, net.weight(f"{name}.bias", bias), name=name)

    def unscaled(self, net: GraphBuilder, x: str, name: str, weight: Load) -> tuple[str, str | None]:
        return self._multiply(net, x, name, weight, None)

    def rescaled(self, net: GraphBuilder, x: str, name: str, weight: Load, scale: str | None) -> str:
        product, own = self._multiply(net, x, name, weight, None)  # a row's factor does not change its integers
        both = own if scale is None else net.op("Mul", own, scale, name=f"{name}.both_scales")
        return net.op("Mul", product, both, name=name)

    def head(self, net: GraphBuilder, x: str, rows: str, weight: Load, bias: Load | None) -> tuple[str, str | None]:
        if bias is not None:
            return self.linear(net, x, "head", weight, bias), None
        # The best id of a row does not depend on its scale, and to multiply 64 x 32,000 logits takes 1.1 ms.
        return self._multiply(net, x, "head", weight, None)

    def _multiply(self, net: GraphBuilder, x: str, name: str, weight: Load, lowest: float | None) -> tuple[str, str]:
        """The product before the multiplication by the scales of the rows (M, N), and the scales (M, 1)."""
        factor = None if self._factors is None else functools.partial(self._factors, name)
        stored = store_quantized(net, name, weight, mixed=self._mixed, factor=factor)
        key = x, stored.is_mixed
        if key not in self._quantized:
            mixed = add_mixing(net, x, stored.width) if stored.is_mixed else x
            self._quantized[key] = quantize_rows(net, mixed, None if stored.is_mixed else lowest, self._rows)
        quantized, scale = self._quantized[key]
        return quantized_product(net, quantized, stored), scale


def quantize_rows(net: GraphBuilder, x: str, lowest: float | None = None, rows: str = "rows") -> tuple[str, str]:
    """(M, K) -> uint8 (M, K) and the scale of each row (M, 1)."""
    axis, tiny = net.constant("last_axis", [1]), net.constant("tiny", _TINY, np.float32)
    highest = net.op("ReduceMax", x, axis, name=f"{x}.highest", keepdims=0)  # (M,)
    if lowest is None:  # minimum and maximum instead of the largest |x|: 9 us instead of 13 for 64 x 512
        least = net.op("ReduceMin", x, axis, name=f"{x}.lowest", keepdims=0)
        depth = net.op("Sub", tiny, least, name=f"{x}.depth")
    else:
        depth = net.constant(f"depth_{lowest}", max(_TINY, -lowest), np.float32)
    largest = net.op("Max", highest, depth, name=f"{x}.largest")
    scale = net.op("Mul", largest, net.constant("one_127th", 1 / 127, np.float32), name=f"{x}.scale_of_row")
    # QuantizeLinear with scales along the first axis saves a separate division (10 us).
    quantized = net.op("QuantizeLinear", x, scale, _zero_points(net, scale, rows), name=f"{x}.quantized", axis=0)
    return quantized, net.op("Unsqueeze", scale, axis, name=f"{x}.scale")


def _zero_points(net: GraphBuilder, scale: str, rows: str) -> str:
    """(M,), shared by all activations of a graph with as many rows."""
    name = f"{rows}.zero_points"
    if name not in net:
        count = net.op("Shape", scale, name=f"{rows}.number")
        net.op("Expand", net.constant("zero_point", [_ZERO_POINT], np.uint8), count, name=name)
    return name


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """A weight in int8 that the store has."""

    name: str  # of the product
    integers: str  # (K, N)
    scales: str  # (N,)
    width: int  # K
    is_mixed: bool  # its rows are mixed, so the rows of the activations have to be mixed too


def store_quantized(
    net: GraphBuilder,
    name: str,
    weight: Load,
    *,
    mixed: bool = False,
    factor: Callable[[], Array | None] | None = None,
) -> QuantizedWeight:
    """The int8 weight of the product `name`: the stored one, or one that is rounded now, mixed if `mixed` and its width
    allows it, and with the `factor` of its rows if it is known."""
    integers, of_mixed, scales = f"{name}.int8", f"{name}.mixed.int8", f"{name}.scales"
    columns = _Columns(weight, factor, mixed=mixed)
    is_mixed = net.stores(of_mixed) or (not net.stores(integers) and columns.is_mixed)
    stored = net.weight(of_mixed if is_mixed else integers, lambda: columns.quantized)
    net.weight(scales, lambda: columns.scales)
    return QuantizedWeight(name, stored, scales, net.shape_of(stored)[0], is_mixed)


def quantized_product(net: GraphBuilder, quantized: str, weight: QuantizedWeight) -> str:
    """uint8 (M, K) -> (M, N), before the multiplication by the scales of the rows."""
    return net.op(
        "MatMulIntegerToFloat",
        quantized,
        weight.integers,
        net.constant("one", 1.0, np.float32),
        weight.scales,
        net.constant("activation_zero_point", _ZERO_POINT, np.uint8),
        net.constant("weight_zero_point", 0, np.int8),
        name=f"{weight.name}.product",
        domain=CONTRIB,
    )


class _Columns:
    """A weight in int8 and its scales; the weight is loaded once for both."""

    def __init__(self, weight: Load, factor: Callable[[], Array | None] | None, *, mixed: bool) -> None:
        self._weight = weight
        self._factor = factor
        self._mixed = mixed
        self._done: tuple[NDArray[np.int8], Array] | None = None

    @property
    def is_mixed(self) -> bool:
        return self._mixed and can_be_mixed(self._both()[0].shape[0])

    @property
    def quantized(self) -> NDArray[np.int8]:
        return self._both()[0]

    @property
    def scales(self) -> Array:
        scales = self._both()[1]
        self._done = None
        return scales

    def _both(self) -> tuple[NDArray[np.int8], Array]:
        if self._done is None:
            weight = self._weight()  # (N, K)
            if self._mixed and can_be_mixed(weight.shape[1]):
                weight = mix(weight)
            scales = row_scales(weight)
            factor = None if self._factor is None else self._factor()
            if factor is None:
                self._done = round_to_nearest(weight, scales), scales
            else:
                self._done = round_by_moments(weight, scales, factor), scales
        return self._done
