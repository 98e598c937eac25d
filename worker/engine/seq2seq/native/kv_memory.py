"""
Memory for the keys and values of slots, with a capacity as tight as its content.

Attention reads what is cached of each row and head, a part of every C positions. The smaller the part, the slower:
reading 16 of every 32 positions takes 1.3 to 2.5 times as long as 16 of 16, depending on the processor. So the capacity
follows the longest row, up and down; what is cached moves within the same memory.

Shapes: R rows · C capacity · L layers · N heads · H head size.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.host_arrays import GrowingBuffer
from worker.engine.search.logit_rules import Ids
from worker.kernels.compiled import compiled_kernels


class KVMemory:
    """Keys and values (2 L, R, N, C, H) over memory that is allocated once and used again."""

    def __init__(self, sizes: tuple[int, int, int], dtype: np.dtype[Any], *, step: int, slack: float) -> None:
        """`sizes`: 2 L, N and H. Capacities are multiples of `step`; a row may be shorter than the capacity by the
        factor `slack` before everything moves together."""
        self._sizes = sizes
        self._step = step
        self._slack = slack
        self.buffer = GrowingBuffer(dtype)
        self.array = self._lay_out(0, 0)

    @property
    def capacity(self) -> int:
        """C: the positions of a row."""
        return int(self.array.shape[3])

    def allocate(self, rows: int, positions: int, reserved: int = 0) -> None:
        """Lay out `rows` rows of `positions`, in memory that has room for `reserved` positions of each."""
        self.array = np.empty((0,) * 5, self.array.dtype)  # else it would keep memory that is too small
        self._lay_out(rows, max(self._round_up(positions), self._round_up(reserved)))
        self.array = self._lay_out(rows, self._round_up(positions))

    def fit(self, rows: int, cached: int, needed: int, *, reserved_rows: int = 0) -> None:
        """Make room for `rows` rows and for `needed` positions of each, and not for many more positions. The first
        `cached` positions of these rows are kept.

        What moves is laid out for `rows` rows, or `reserved_rows` if these are more. Allocates only if the memory is
        too small: then for twice the positions.
        """
        capacity = self._round_up(needed)
        if rows > self.array.shape[1] or self.capacity < needed or self.capacity >= self._slack * capacity:
            self._move(rows, cached, max(rows, reserved_rows), capacity)

    def _move(self, kept: int, cached: int, rows: int, capacity: int) -> None:
        """Lay out `rows` rows; the first `cached` positions of the first `kept` are copied."""
        old = self.array
        if rows * capacity * math.prod(self._sizes) > self.buffer.size:
            capacity = max(capacity, 2 * self.capacity)
            self.buffer.release()  # `old` keeps the memory
        new = self._lay_out(rows, capacity)
        kernels = compiled_kernels()
        if kernels is not None:
            kernels.lay_out(old, new, min(kept, old.shape[1]), cached)
            self.array = new
            return
        # In place: no part of the old layout is overwritten before it is read.
        parts = range(len(old)) if new[0].size < old[0].size else reversed(range(len(old)))
        for part in parts:
            copied = old[part, :kept, :, :cached].copy()
            new[part, : len(copied), :, :cached] = copied
        self.array = new

    def _round_up(self, length: int) -> int:
        return round_up(length, self._step)

    def _lay_out(self, rows: int, capacity: int) -> NDArray[Any]:
        kinds, heads, head_size = self._sizes
        return self.buffer.lay_out((kinds, rows, heads, capacity, head_size))


def copy_rows(cache: NDArray[Any], rows: Ids, sources: Ids, first: NDArray[np.int32], last: NDArray[np.int32]) -> None:
    """Copy positions [first[i], last[i]) of row sources[i] to row rows[i], one i after the other, in a cache (2 L, R,
    N, C, H). The other arrays are (m,). No row may be overwritten before it is copied."""
    kernels = compiled_kernels()
    if kernels is not None:
        kernels.copy_rows(cache, rows, sources, first, last)
        return
    for row, source, start, stop in zip(rows.tolist(), sources.tolist(), first.tolist(), last.tolist(), strict=True):
        cache[:, row, :, start:stop] = cache[:, source, :, start:stop]


def round_up(length: int, step: int) -> int:
    """The smallest multiple of `step` that is not 0 and not below `length`."""
    return max(1, -(-length // step)) * step
