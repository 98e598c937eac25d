"""
Rows that are mixed before they are rounded to int8: y = x W^T = (x O) (W O)^T for an orthogonal O.

Trained networks have a few channels that are a hundred times as large as the rest. With one scale a row, these take all
of the 127 steps, and the rest is rounded away. O spreads each channel over many (QuaRot, arXiv:2404.00456).

O of a row of R x P numbers, where P is the greatest power of two in their count and R the odd rest: the Hadamard matrix
of P numbers within each of the R segments; then the one of p segments across the first p of them, and, after some have
changed their sign, across the last p, where p is the greatest power of two up to R. So every step is a sum and a
difference: up to K log2(P p p) operations a row. mixing.c does the same in the same order.

Shapes: K numbers of a row · R segments · P their size.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

# A bit for each segment: 1 changes its sign. The best of 3,000 random values for odd R up to 63: the largest number
# of the matrix across is 1.22 (R 3) to 2.69 (R 33) times 1 / sqrt(R).
_SIGNS = 0x98240BF9B831D6A3
_LEAST = 16  # the greatest power of two in K: the kernel takes as many numbers at a time


def can_be_mixed(size: int) -> bool:
    """Whether rows of `size` numbers have a matrix."""
    return size % _LEAST == 0


def mix(rows: Array) -> Array:
    """rows (..., K) -> rows O (..., K), in float32."""
    segment, segments = _segments(rows.shape[-1])
    mixed = _transform(rows.astype(np.float32).reshape(*rows.shape[:-1], segments, segment), -1)
    across = _power_below(segments)
    if segments > 1:
        mixed[..., :across, :] = _transform(mixed[..., :across, :], -2)
        mixed[..., segments - across : across, :] *= _signs(segments - across, across)[:, None]
        mixed[..., -across:, :] = _transform(mixed[..., -across:, :], -2)
    result: Array = mixed.reshape(rows.shape)
    return result


def _segments(size: int) -> tuple[int, int]:
    """P and R: the size and the number of a row's segments."""
    segment = size & -size
    return segment, size // segment


def _signs(start: int, stop: int) -> Array:
    """The signs of segments `start` to `stop`, which are in both transforms across: without them, the second would undo
    much of the first."""
    return np.array([-1 if _SIGNS >> index % 64 & 1 else 1 for index in range(start, stop)], np.float32)


def _power_below(count: int) -> int:
    """The greatest power of two up to `count`."""
    return 1 << (count.bit_length() - 1)


def _transform(x: Array, axis: int) -> Array:
    """The orthonormal Hadamard transform along an axis whose length is a power of two."""
    mixed = np.moveaxis(x, axis, 0).copy()  # so that every step adds and subtracts long rows, also the first ones
    sums, length, step = np.empty_like(mixed), len(mixed), 1
    while step < length:
        (low, high), (added, subtracted) = (
            rows.reshape(length // (2 * step), 2, -1).swapaxes(0, 1) for rows in (mixed, sums)
        )
        np.add(low, high, out=added)
        np.subtract(low, high, out=subtracted)
        mixed, sums, step = sums, mixed, 2 * step
    mixed *= np.float32(1 / math.sqrt(length))
    return np.ascontiguousarray(np.moveaxis(mixed, 0, axis))
