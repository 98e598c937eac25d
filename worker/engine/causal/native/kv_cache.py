"""
Keys and values of one sequence that is read in several calls.

Past and present are the same memory: a call writes behind the cached tokens. To drop what a call has written, the next
call gets a smaller length. On CPUs, positions beyond the length are never read. A GPU's kernel multiplies their values
by zero, which is NaN where the memory happens to hold NaN or infinity (H200, onnxruntime 1.31.1: all of 160 suffixes
behind a prefix were NaN, and none where the memory held zeros), so for a GPU the memory is cleared.

Shapes: C capacity · L layers · K key/value heads · H head size.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import IOBinding

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.host_arrays import GrowingBuffer, bind_past

_CAPACITY_STEP = 256  # positions


class SequenceCache:
    """One lane's cache, laid out for each sequence in memory that is reused."""

    def __init__(
        self, layers: int, kv_heads: int, head_size: int, dtype: np.dtype[Any], *, is_cleared: bool = False
    ) -> None:
        """`is_cleared`: fill the memory of each sequence with zeros."""
        self._is_cleared = is_cleared
        self._reuses = 0
        self._shape = (2 * layers, 1, kv_heads, head_size)
        self._buffer = GrowingBuffer(dtype)
        self._laid_out = self._buffer.lay_out((2 * layers, 1, kv_heads, 0, head_size))  # (2 L, 1, K, C, H)

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the cache; a sequence that allocates nothing counts as one reuse."""
        return BufferStats(self._buffer.num_bytes, self._buffer.allocations, self._reuses)

    def begin(self, positions: int) -> None:
        """Begin a sequence of at most `positions`.

        The capacity is no larger, however much memory there is: with a bias, the kernel holds scores for all of it.
        """
        parts, rows, heads, head_size = self._shape
        capacity = -(-positions // _CAPACITY_STEP) * _CAPACITY_STEP
        before = self._buffer.allocations
        self._laid_out = np.empty((0,) * 5, self._laid_out.dtype)  # else it would keep the memory
        self._laid_out = self._buffer.lay_out((parts, rows, heads, capacity, head_size))
        self._reuses += self._buffer.allocations == before
        if self._is_cleared:
            self._laid_out.fill(0)

    def bind(self, binding: IOBinding) -> None:
        """Bind the cache both as the past and as the present of the graph."""
        bind_past(binding, self._laid_out)

    def positions(self, start: int, stop: int) -> NDArray[Any]:
        """Keys and values of positions `start` to `stop` (2 L, K, stop - start, H), in the cache's own memory."""
        return self._laid_out[:, 0, :, start:stop]
