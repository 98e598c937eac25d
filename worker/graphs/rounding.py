"""
Weights rounded to int8, with a scale for each row: to the nearest step, or so that products change least on a sample.

The second is GPTQ (Frantar et al. 2022, arXiv:2210.17323): a row w is rounded number by number to W. After each number,
the numbers that are not rounded yet are changed so that (w - W) M (w - W)^T stays as small as possible, where M are the
second moments of the inputs of the product.

Shapes: N rows of a weight · K their size.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_STEPS = 127
_BLOCK = 64  # numbers of a row whose changes are carried to the rest by one product
_DAMPING = 0.01  # of the mean of the moments' diagonal: a sample has directions without a single token


def row_scales(weight: Array) -> Array:
    """(N, K) -> (N,): the step of each row, by its largest number."""
    largest = np.abs(weight).max(axis=1)
    scales: Array = np.where(largest > 0, largest / _STEPS, 1).astype(np.float32)
    return scales


def round_to_nearest(weight: Array, scales: Array) -> NDArray[np.int8]:
    """(N, K) -> (K, N), each number rounded by itself."""
    return np.ascontiguousarray(np.rint(weight / scales[:, None]).astype(np.int8).T)


def round_by_moments(weight: Array, scales: Array, factor: Array) -> NDArray[np.int8]:
    """(N, K) -> (K, N), by GPTQ. `factor` (K, K): from `inverse_factor`."""
    rest = np.ascontiguousarray(weight.T) / scales  # (K, N), in steps
    rounded = np.empty(rest.shape, np.int8)
    for start in range(0, len(rest), _BLOCK):
        stop = min(start + _BLOCK, len(rest))
        block = rest[start:stop]
        errors = np.empty_like(block)
        for offset in range(stop - start):
            number = start + offset
            whole = np.clip(np.rint(block[offset]), -_STEPS, _STEPS)
            rounded[number] = whole
            errors[offset] = (block[offset] - whole) / factor[number, number]
            block[offset + 1 :] -= factor[number, number + 1 : stop, None] * errors[offset]
        rest[stop:] -= factor[start:stop, stop:].T @ errors
    return rounded


def rounding_error(weight: Array) -> tuple[float, float]:
    """The greatest |w - W| and the greatest |W| (Euclidean norms) over the rows w of a weight (N, K), where W is w
    rounded to the nearest step."""
    scales = row_scales(weight)[:, None]
    rounded = np.rint(weight / scales) * scales
    error, norm = np.linalg.norm(weight - rounded, axis=1).max(), np.linalg.norm(rounded, axis=1).max()
    return float(error), float(norm)


def inverse_factor(moments: NDArray[np.floating]) -> Array | None:
    """The factor that `round_by_moments` takes, from second moments (K, K): the upper triangle U with U^T U = the
    inverse of the damped moments. None if the moments are not finite, or all zero."""
    damped = np.asarray(moments, np.float64)
    damping = _DAMPING * damped.diagonal().mean()
    if not np.isfinite(damped).all() or damping <= 0:
        return None
    damped = damped + damping * np.eye(len(damped))
    # Of the moments in reverse order, the lower triangle L with L L^T; its inverse, reversed again, is U.
    lower = np.linalg.cholesky(damped[::-1, ::-1])
    upper: Array = np.ascontiguousarray(_inverse(lower)[::-1, ::-1], np.float32)
    return upper


def _inverse(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of a lower triangle, by halves: an eighth of the work of numpy's inverse for any matrix."""
    half = len(lower) // 2
    if half < _BLOCK:
        inverse: NDArray[np.float64] = np.tril(np.linalg.inv(lower))
        return inverse
    first, last = _inverse(lower[:half, :half]), _inverse(lower[half:, half:])
    inverse = np.zeros_like(lower)
    inverse[:half, :half], inverse[half:, half:] = first, last
    inverse[half:, :half] = -(last @ (lower[half:, :half] @ first))
    return inverse
