"""
Memory for the keys and values of slots, with a capacity as tight as its content.

Attention reads what is cached of each row and head, a part of every C positions. The smaller the part, the slower:
reading 16 of every 32 positions takes 1.3 to 2.5 times as long as 16 of 16, depending on the processor. So the capacity
follows the longest row, up and down; what is cached moves within the same memory.

Shapes: R rows · C capacity · L layers · N heads · H head size.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.growing_buffer import GrowingBuffer


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
        """C."""
        return int(self.array.shape[3])

    def begin(self, rows: int, positions: int, reserved: int = 0) -> None:
        """Lay out `rows` rows for so many positions, in memory that has room for `reserved` positions of each."""
        self.array = np.empty((0,) * 5, self.array.dtype)  # else it would keep memory that is too small
        self._lay_out(rows, max(self._round_up(positions), self._round_up(reserved)))
        self.array = self._lay_out(rows, self._round_up(positions))

    def fit(self, rows: int, cached: int, needed: int) -> None:
        """Make the capacity at least `needed`, and not much more; the first `cached` positions of the first `rows` rows
        are kept. Allocates only if the memory is too small: then for twice the positions."""
        capacity = self._round_up(needed)
        if self.capacity < needed or self.capacity >= self._slack * capacity:
            self._move(rows, cached, capacity)

    def _move(self, rows: int, cached: int, capacity: int) -> None:
        old, num_rows = self.array, self.array.shape[1]
        if num_rows * capacity * old[:, 0, :, :1].size > self.buffer.size:
            capacity = max(capacity, 2 * self.capacity)
            self.buffer.release()  # `old` keeps the memory
        new = self._lay_out(num_rows, capacity)
        # In place: no part of the old layout is overwritten before it is read.
        parts = range(len(old)) if capacity < self.capacity else reversed(range(len(old)))
        for part in parts:
            new[part, :rows, :, :cached] = old[part, :rows, :, :cached].copy()
        self.array = new

    def _round_up(self, length: int) -> int:
        return round_up(length, self._step)

    def _lay_out(self, rows: int, capacity: int) -> NDArray[Any]:
        kinds, heads, head_size = self._sizes
        return self.buffer.lay_out((kinds, rows, heads, capacity, head_size))


def round_up(length: int, step: int) -> int:
    """The smallest multiple of `step` that is not 0 and not below `length`."""
    return max(1, -(-length // step)) * step
