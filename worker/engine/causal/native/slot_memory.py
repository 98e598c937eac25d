"""
Keys and values of the rows of one lane that continue prompts: a slot per row, which the next prompt takes when it is
free. How long each row is, `lane_body` knows.

Past and present are the same memory: a call writes behind the cached tokens of each row. Running rows are always the
first ones, so a call is bound to a slice. On CPUs, positions beyond a row's own length are never read; for a GPU they
hold no number of an earlier row (why, `kv_cache` says).

Shapes: R rows · C capacity · L layers · K key/value heads · H head size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import IOBinding

from worker.engine.causal.native.kv_cache import SequenceCache
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.host_arrays import GrowingBuffer, bind_past


@dataclass(frozen=True, slots=True)
class SlotShape:
    """The sizes of the keys and values of some layers."""

    num_layers: int  # L
    kv_heads: int  # K
    head_size: int  # H
    dtype: np.dtype[Any]

    @property
    def position_bytes(self) -> int:
        """The memory of one token's keys and values."""
        return 2 * self.num_layers * self.kv_heads * self.head_size * self.dtype.itemsize


class SlotMemory:
    """Slots in the host's memory."""

    def __init__(self, shape: SlotShape, *, is_cleared: bool = False) -> None:
        """`is_cleared`: fill with zeros what lies beyond the tokens of a row."""
        self._shape = shape
        self._is_cleared = is_cleared
        self._reuses = 0
        self._buffer = GrowingBuffer(shape.dtype)
        self._past = self._lay_out(0, 0)  # (2 L, slots, K, C, H)

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the slots; an `allocate` that needs no new memory counts as one reuse."""
        return BufferStats(self._buffer.num_bytes, self._buffer.allocations, self._reuses)

    @property
    def location(self) -> tuple[int, tuple[int, ...]]:
        """The address and the shape of the slots' memory, which `grow` may move."""
        return self._past.ctypes.data, self._past.shape

    def allocate(self, slots: int, capacity: int) -> None:
        """Allocate `slots` free slots of `capacity` positions."""
        before = self._buffer.allocations
        self._past = np.empty((0,) * 5, self._shape.dtype)  # else it would keep the memory
        self._past = self._lay_out(slots, capacity)
        self._reuses += self._buffer.allocations == before
        self._clear(self._past)

    def begin_rows(self, first: int, count: int) -> None:
        """Some rows begin anew, without tokens."""
        self._clear(self._past[:, first : first + count])

    def grow(self, capacity: int, rows: int, longest: int) -> None:
        """Make room for `capacity` positions in every slot; the first rows have at most `longest` tokens."""
        old = self._past
        self._buffer.release()  # `old` keeps the memory
        self._past = self._lay_out(old.shape[1], capacity)
        self._clear(self._past)
        self._past[:, :rows, :, :longest] = old[:, :rows, :, :longest]

    def take(self, cache: SequenceCache, start: int, stop: int, row: int, position: int) -> None:
        """Copy positions `start` to `stop` of a sequence into a row, from `position` on."""
        end = position + stop - start
        self._past[:, row, :, position:end] = cache.positions(start, stop)
        self._clear(self._past[:, row, :, end:])

    def move(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Copy rows, one after the other: (to, from, its length)."""
        for to, source, length in moves:
            self._past[:, to, :, :length] = self._past[:, source, :, :length]
            self._clear(self._past[:, to, :, length:])

    def bind(self, binding: IOBinding, first: int, count: int) -> None:
        """Bind `count` rows from `first` on as past and as present of a graph."""
        bind_past(binding, self._past[:, first : first + count])

    def _clear(self, memory: NDArray[Any]) -> None:
        if self._is_cleared:
            memory.fill(0)

    def _lay_out(self, slots: int, capacity: int) -> NDArray[Any]:
        shape = self._shape
        return self._buffer.lay_out((2 * shape.num_layers, slots, shape.kv_heads, capacity, shape.head_size))
