"""
Several rows' pasts in one array: one prefix repeated for all, or pasts of different lengths, padded on the left.
Shapes: B rows · K key/value heads · P past length · H head size.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.buffer_stats import BufferStats

Past = Sequence[NDArray[Any]]  # a key and a value of each layer, (B, K, P, H)


class BroadcastPast:
    """One lane's buffers for copies of one past. All rows are equal, so a smaller batch uses the first of them."""

    def __init__(self) -> None:
        self._allocations = self._reuses = 0
        self._memory: list[NDArray[Any]] = []  # flat
        self._past: Past = ()
        self._filled = 0  # rows

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the repeated keys and values; a batch that allocates nothing counts as one reuse."""
        return BufferStats(sum(memory.nbytes for memory in tuple(self._memory)), self._allocations, self._reuses)

    def repeat(self, past: Past) -> None:
        """Set the past (1, K, P, H) that is repeated from now on."""
        self._past, self._filled = past, 0

    def end(self) -> None:
        """Drop the past; the buffers stay."""
        self._past, self._filled = (), 0

    def rows(self, count: int) -> Past:
        """The past of `count` rows (count, K, P, H), valid until `repeat` or `end`."""
        if count == 1:
            return self._past
        if count > self._filled:
            self._fill(count)
        else:
            self._reuses += 1
        return self._views(count)

    def _fill(self, count: int) -> None:
        needed = [count * array.size for array in self._past]
        fits = len(self._memory) == len(self._past) and all(
            memory.size >= size and memory.dtype == array.dtype
            for memory, size, array in zip(self._memory, needed, self._past, strict=True)
        )
        if fits:
            self._reuses += 1
        else:
            self._allocations += 1
            self._memory = []  # freed first: both may not fit into memory
            self._memory = [np.empty(size, array.dtype) for size, array in zip(needed, self._past, strict=True)]
        for view, array in zip(self._views(count), self._past, strict=True):
            view[:] = array
        self._filled = count

    def _views(self, count: int) -> Past:
        return [
            memory[: count * math.prod(array.shape)].reshape(count, *array.shape[1:])
            for memory, array in zip(self._memory, self._past, strict=True)
        ]


def padded_pasts(pasts: Sequence[Past], lengths: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Join the pasts of several rows, arrays (1, K, S, H) for the key and the value of each layer, into arrays (B, K,
    P, H). The first lengths[i] positions of row i count: they move to the end, with zeros before them."""
    longest = int(lengths.max())
    joined = []
    for number, first in enumerate(pasts[0]):
        both = np.zeros((len(pasts), first.shape[1], longest, first.shape[3]), first.dtype)
        for row, (past, length) in enumerate(zip(pasts, lengths.tolist(), strict=True)):
            both[row, :, longest - length :] = past[number][0, :, :length]
        joined.append(both)
    return joined
