"""
Keys and values of the rows of one lane that continue prompts: a slot per row, which the next prompt takes when it is
free.

Past and present are the same memory: a call writes behind the cached tokens of each row. Running rows are always the
first ones, so a call is bound to a slice. Positions beyond a row's own length are never read.

Shapes: R rows · C capacity · L layers · K key/value heads · H head size.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import IOBinding

from worker.engine.causal.native.kv_cache import SequenceCache
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.growing_buffer import GrowingBuffer
from worker.engine.runtime.host_arrays import bind_past
from worker.engine.search.logit_rules import Ids

_CAPACITY_STEP = 16  # positions


@dataclass(frozen=True, slots=True)
class SlotShape:
    """The sizes of one model's keys and values."""

    num_layers: int  # L
    kv_heads: int  # K
    head_size: int  # H
    dtype: np.dtype[Any]

    @property
    def position_bytes(self) -> int:
        """The memory of one token's keys and values."""
        return 2 * self.num_layers * self.kv_heads * self.head_size * self.dtype.itemsize


class KVSlots:
    """Slots in the host's memory."""

    def __init__(self, shape: SlotShape) -> None:
        self._shape = shape
        self._reuses = 0
        self._buffer = GrowingBuffer(shape.dtype)
        self._past = self._lay_out(0, 0)  # (2 L, slots, K, C, H)
        self.lengths = np.zeros(0, np.int32)  # (slots,): tokens cached; of the first `num_rows` it counts
        self.num_rows = 0  # R

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the slots; a `begin` that allocates nothing counts as one reuse."""
        return BufferStats(self._buffer.num_bytes, self._buffer.allocations, self._reuses)

    @property
    def longest(self) -> int:
        """The largest number of tokens that a running row has cached."""
        return int(self.lengths[: self.num_rows].max(initial=0))

    @property
    def memory(self) -> NDArray[Any]:
        """The slots as they lie in memory now: `reserve` may move them."""
        return self._past

    def begin(self, slots: int, positions: int) -> None:
        """Allocate so many free slots, with room for `positions` at first; they grow."""
        before = self._buffer.allocations
        self.num_rows = 0
        self._past = np.empty((0,) * 5, self._shape.dtype)  # else it would keep the memory
        self._past = self._lay_out(slots, _round_up(positions))
        self.lengths = np.zeros(slots, np.int32)
        self._reuses += self._buffer.allocations == before

    def admit(self, rows: int) -> None:
        """Add rows after the others, without tokens."""
        self.lengths[self.num_rows : self.num_rows + rows] = 0
        self.num_rows += rows

    def reserve(self, positions: int) -> None:
        """Make room for so many positions in every slot."""
        old, rows = self._past, self.num_rows
        if positions <= old.shape[3]:
            return
        longest = self.longest
        self._buffer.release()  # `old` keeps the memory
        self._past = self._lay_out(old.shape[1], max(2 * old.shape[3], _round_up(positions)))
        self._past[:, :rows, :, :longest] = old[:, :rows, :, :longest]

    def take(self, cache: SequenceCache, start: int, stop: int, row: int) -> None:
        """Add positions `start` to `stop` of another cache to a row."""
        length = int(self.lengths[row])
        self._past[:, row, :, length : length + stop - start] = cache.positions(start, stop)
        self.lengths[row] += stop - start

    def select(self, rows: Ids) -> None:
        """Row i continues what was row rows[i]; rows that are not in `rows` are dropped.

        Copies only rows that change; `rows` must be such that no row is overwritten before it is copied.
        """
        for row in np.flatnonzero(rows != np.arange(len(rows))).tolist():
            length = self.lengths[rows[row]]
            self._past[:, row, :, :length] = self._past[:, rows[row], :, :length]
        self.lengths[: len(rows)] = self.lengths[rows]
        self.num_rows = len(rows)

    def bind(self, binding: IOBinding, first: int, count: int) -> None:
        """Bind `count` rows from `first` on as past and as present of a graph."""
        bind_past(binding, self._past[:, first : first + count])

    def _lay_out(self, slots: int, capacity: int) -> NDArray[Any]:
        shape = self._shape
        return self._buffer.lay_out((2 * shape.num_layers, slots, shape.kv_heads, capacity, shape.head_size))


def _round_up(length: int) -> int:
    """The capacity for `length` positions: a multiple of `_CAPACITY_STEP`."""
    return max(1, -(-length // _CAPACITY_STEP)) * _CAPACITY_STEP
