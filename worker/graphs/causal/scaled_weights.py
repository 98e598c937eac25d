"""
The tensors of a causal checkpoint with scaled channels, so that rounding to int8 changes products less.

A product x W^T stays what it is if each channel of x is divided by some d > 0 and that column of W multiplied by d
(SmoothQuant, Xiao et al. 2022, arXiv:2211.10438). Rows are mixed before they are rounded (`worker.kernels.mixing`), so
the error of a channel's numbers spreads evenly over all channels, and the error of a product is proportional to

    (sum of d^2 w^2) (sum of x^2 / d^2)       x: the size of a channel, w: that of its column of W

which is least at d^2 = x / w. The division is folded into what makes x: the factors of a norm, the rows of up_proj
before down_proj, the rows of the values before the output of attention. So no graph computes more, with one exception:
a head that is tied to the embeddings takes their table with it, and a gathered row is divided by d again
(`worker.graphs.embeddings`).

Shapes: V vocabulary · D width · F inner width · N heads · K key/value heads · H head size.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from worker.graphs.causal.head import HEAD_PRODUCT
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.tensor_names import BEFORE_ATTENTION, BEFORE_INNER, DOWN, OUT, UP
from worker.graphs.causal.weights import Array, CausalWeights
from worker.graphs.checkpoint_weights import Weights

# A channel counts as at least this share of the root mean square of all: one that is always zero has no size.
_LEAST_SHARE = 1e-3


class ScaledWeights(CausalWeights):
    """The tensors by their role, each channel that a product reads divided by its scale."""

    def __init__(self, weights: Weights, sizes: CausalSizes, scales: Mapping[str, Array]) -> None:
        """`scales`: by product, the d of its input (`channel_scales`). A scale that no weights before the product can
        absorb is left out; products that read the same input have the same scales."""
        super().__init__(weights, sizes)
        self._scales = {product: d for product, d in scales.items() if self._is_foldable(product)}

    def qkv(self, layer: int) -> Array:
        weight = super().qkv(layer) * self._scale(f"layers.{layer}.qkv")
        return self._scaled_values(weight, layer)

    def qkv_bias(self, layer: int) -> Array:
        return self._scaled_values(super().qkv_bias(layer), layer)

    def out(self, layer: int) -> Array:
        return super().out(layer) * self._scale(f"layers.{layer}.{OUT}")

    def inner(self, layer: int, role: str) -> Array:
        weight = super().inner(layer, role) * self._scale(f"layers.{layer}.{role}")
        return weight / self._scale(f"layers.{layer}.{DOWN}", rows=True) if role == UP else weight

    def inner_bias(self, layer: int, role: str) -> Array:
        bias = super().inner_bias(layer, role)
        return bias / self._scale(f"layers.{layer}.{DOWN}") if role == UP else bias

    def norm(self, layer: int, role: str) -> Array:
        return super().norm(layer, role) / self._behind(layer, role)

    def norm_bias(self, layer: int, role: str) -> Array:
        return super().norm_bias(layer, role) / self._behind(layer, role)

    def last_norm(self) -> Array:
        return super().last_norm() / self._scale(HEAD_PRODUCT)

    def last_norm_bias(self) -> Array:
        return super().last_norm_bias() / self._scale(HEAD_PRODUCT)

    def head(self) -> Array:
        return super().head() * self._scale(HEAD_PRODUCT)

    def table_scales(self) -> Array | None:
        return self._scales.get(HEAD_PRODUCT) if self._sizes.shares_table else None

    def _is_foldable(self, product: str) -> bool:
        block = self._sizes.block
        if product == HEAD_PRODUCT:
            return block.last_norm
        if product.endswith(f".{DOWN}"):
            return block.is_gated
        if product.endswith(f".{OUT}"):
            return block.clip_qkv is None
        return block.norms_before

    def _scale(self, product: str, *, rows: bool = False) -> Array:
        """d of the product's input, for the product's columns, or (K, 1) for the rows of the product before it."""
        d = self._scales.get(product, np.ones(1, np.float32))
        return d[:, None] if rows else d

    def _behind(self, layer: int, role: str) -> Array:
        """d of the norm's output (D,); `role`: of the norm."""
        products = {BEFORE_ATTENTION: "qkv", BEFORE_INNER: UP}
        return self._scale(f"layers.{layer}.{products[role]}") if role in products else np.ones(1, np.float32)

    def _scaled_values(self, packed: Array, layer: int) -> Array:
        """Weight or bias of queries, keys and values, the rows of the values divided by the d of the attention's
        output: a key/value head by that of its first query head, as all of them have the same."""
        sizes = self._sizes
        d = self._scale(f"layers.{layer}.{OUT}")
        if len(d) == 1:
            return packed
        group = sizes.heads // sizes.kv_heads
        of_values = d.reshape(sizes.heads, sizes.head_size)[::group].reshape(-1)
        scaled = packed.copy()
        values = scaled[-len(of_values) :]
        values /= of_values.reshape(-1, *[1] * (packed.ndim - 1))
        return scaled


def channel_scales(
    squares: NDArray[np.floating], weights: NDArray[np.floating], heads: tuple[int, int] = (1, 1)
) -> Array:
    """d (K,) from the mean squares of the channels of x (K,) and the sums of squares of the columns of W (K,). Channels
    count as equal if they are all zero, or one is not finite.

    `heads`: N, K of attention's output, whose query heads of a group share the scales of their values.
    """
    x, w = (_positive(_of_groups(values, heads)) for values in (squares, weights))
    d: Array = ((x / w) ** 0.25).astype(np.float32)
    return d


def _of_groups(values: NDArray[np.floating], heads: tuple[int, int]) -> NDArray[np.float64]:
    """The mean over the query heads of a group, for each of them."""
    queries, keys = heads
    grouped = np.asarray(values, np.float64).reshape(keys, queries // keys, -1)
    return np.broadcast_to(grouped.mean(axis=1, keepdims=True), grouped.shape).reshape(-1)


def _positive(squares: NDArray[np.float64]) -> NDArray[np.float64]:
    least = _LEAST_SHARE**2 * squares.mean()
    return np.maximum(squares, least) if 0 < least < np.inf else np.ones_like(squares)
