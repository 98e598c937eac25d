"""
The memory of one lane for exported graphs: cached keys and values, and the buffers of a step.

Buffers at least double when they grow, and are reused by later batches and jobs. Content beyond the bound length is
never read: every tensor is bound by pointer with its exact shape.

Shapes: R rows · S source length · P past length · C capacity · L layers · K key/value heads · H head size.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import IOBinding

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.search.logit_rules import Ids
from worker.models.layout.seq2seq_layout import CacheShape

_FIRST_LENGTH = 32  # positions allocated for a new batch; the capacity doubles from there


class ExportedKVCache:
    """Keys and values of the running batch, and their memory.

    Self-attention: past and present are separate tensors of the graph, so each key and value has two buffers, which
    change roles after every step:

        step t      past = A, length P     present = B, length P + 1
        step t+1    past = B, length P + 1 present = A, length P + 2

    Cross-attention: written by the first step of a batch, read by all others.
    A tensor (R, K, P, H) lies at the start of its flat buffer, row after row, whatever the capacity.
    """

    def __init__(self, shape: CacheShape | None) -> None:
        """`shape` None: the graph has no cache, and only step buffers are kept."""
        self.length = 0  # P
        self.rows = 0  # R
        self._allocations = self._reuses = 0
        self._shape = shape or CacheShape(0, 0, 0, np.dtype(np.float32))
        self._self_names = self._shape.names("decoder")
        self._cross_names = self._shape.names("encoder")
        self._source_length = 0  # S
        self._cross_length = 0  # S, once there are keys and values of the source
        self._source_of: Ids = np.arange(0)  # (R,): the source whose cross-attention keys and values each row holds
        self._past = 0  # which half of `_self` is the past: 0 or 1
        self._self = np.empty((2, len(self._self_names), 0), self._shape.dtype)  # (2, 2L, C)
        self._cross = np.empty((len(self._cross_names), 0), self._shape.dtype)  # (2L, C)
        self._steps: dict[str, NDArray[Any]] = {}  # flat

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the cache and the step buffers; a batch that allocates nothing counts as one reuse."""
        steps = sum(buffer.nbytes for buffer in tuple(self._steps.values()))
        return BufferStats(self._self.nbytes + self._cross.nbytes + steps, self._allocations, self._reuses)

    def reset(self, rows: int, source_length: int) -> None:
        """Start a batch: `rows` sources, nothing cached."""
        self.length, self.rows = 0, rows
        self._source_length, self._cross_length = source_length, 0
        self._source_of = np.arange(rows)

    def bind_prefix(self, binding: IOBinding, length: int) -> None:
        """Bind the outputs of a call that runs a whole prefix to all keys and values; `advance` makes them the past.

        Only this call, once per batch, writes the keys and values of the source: later calls do not output them.
        """
        before = self._allocations
        self._cross_length = self._source_length
        self._reserve_self(self.rows, max(length, _FIRST_LENGTH))
        self._reserve_cross(self.rows)
        self._reuses += self._allocations == before
        self._bind_self(binding.bind_output, 1 - self._past, length, key_or_value=1)
        self._bind_cross(binding.bind_output, key_or_value=1)

    def bind_source(self, binding: IOBinding) -> None:
        """Bind the keys and values of the source as inputs. They stay bound until the rows change."""
        self._bind_cross(binding.bind_input, key_or_value=0)

    def bind_step(self, binding: IOBinding) -> None:
        """Bind the past as input, and the present, one position longer, as output; `advance` makes it the past."""
        self._reserve_self(self.rows, self.length + 1)  # before anything is bound, because it may move the past
        self._bind_self(binding.bind_input, self._past, self.length, key_or_value=0)
        self._bind_self(binding.bind_output, 1 - self._past, self.length + 1, key_or_value=1)

    def advance(self, length: int) -> None:
        """Make the present, `length` positions long, the past."""
        self._past = 1 - self._past
        self.length = length

    def select(self, rows: Ids) -> None:
        """Row i gets the content of row rows[i]. Copies only rows whose content changes.

        Beams of one source have the same cross-attention keys and values, so a change of beams copies none.
        """
        most = max(len(rows), self.rows)
        self._reserve_self(most, self.length)
        self._reserve_cross(most)
        moved = np.flatnonzero(rows != _padded(np.arange(self.rows), len(rows)))
        if len(moved) and self.length:
            for past, spare in zip(self._self[self._past], self._self[1 - self._past], strict=True):
                _move(past, self._row_size(self.length), moved, rows[moved], spare)
        sources = self._source_of[rows]
        moved = np.flatnonzero(sources != _padded(self._source_of, len(rows)))
        if len(moved) and self._cross_length:
            for cross in self._cross:
                _move(cross, self._row_size(self._cross_length), moved, rows[moved], None)
        self._source_of = sources
        self.rows = len(rows)

    def step_buffer(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """A contiguous array; later ones of this name use the same memory. Its content is undefined."""
        size = math.prod(shape)
        buffer = self._steps.get(name)
        if buffer is None or buffer.size < size or buffer.dtype != dtype:
            self._allocations += 1
            self._steps[name] = buffer = np.empty(_bucket(size, 0 if buffer is None else buffer.size), dtype)
        return buffer[:size].reshape(shape)

    def _row_size(self, length: int) -> int:
        return self._shape.num_heads * length * self._shape.head_size

    def _reserve_self(self, rows: int, length: int) -> None:
        needed = rows * self._row_size(length)
        capacity = self._self.shape[2]
        if needed > capacity:
            self._allocations += 1
            grown = np.empty((2, len(self._self_names), _bucket(needed, capacity)), self._shape.dtype)
            used = self.rows * self._row_size(self.length)
            grown[self._past, :, :used] = self._self[self._past, :, :used]
            self._self = grown

    def _reserve_cross(self, rows: int) -> None:
        needed = rows * self._row_size(self._cross_length)
        capacity = self._cross.shape[1]
        if needed > capacity:
            self._allocations += 1
            grown = np.empty((len(self._cross_names), _bucket(needed, capacity)), self._shape.dtype)
            used = min(capacity, self.rows * self._row_size(self._cross_length))
            grown[:, :used] = self._cross[:, :used]
            self._cross = grown

    def _bind_self(self, bind: Callable[..., None], half: int, length: int, key_or_value: int) -> None:
        shape = (self.rows, self._shape.num_heads, length, self._shape.head_size)
        pointer = self._self.ctypes.data + half * self._self.strides[0]
        for index, names in enumerate(self._self_names):
            bind(names[key_or_value], "cpu", 0, self._shape.dtype.type, shape, pointer + index * self._self.strides[1])

    def _bind_cross(self, bind: Callable[..., None], key_or_value: int) -> None:
        shape = (self.rows, self._shape.num_heads, self._cross_length, self._shape.head_size)
        for index, names in enumerate(self._cross_names):
            pointer = self._cross.ctypes.data + index * self._cross.strides[0]
            bind(names[key_or_value], "cpu", 0, self._shape.dtype.type, shape, pointer)


def _bucket(needed: int, capacity: int) -> int:
    """The size to allocate: at least twice the old one, so that growing costs little in total."""
    return max(needed, 2 * capacity, 1)


def _padded(values: Ids, length: int) -> Ids:
    """The first `length` values, with -1 where there are fewer."""
    padded = np.full(length, -1)
    padded[: len(values)] = values[:length]
    return padded


def _move(buffer: NDArray[Any], row_size: int, targets: Ids, sources: Ids, spare: NDArray[Any] | None) -> None:
    """Copy rows `sources` of a flat buffer to rows `targets`, as if all at once. `spare`: memory for the copies."""
    rows = buffer[: (max(targets.max(), sources.max()) + 1) * row_size].reshape(-1, row_size)
    if spare is None:
        rows[targets] = rows[sources]
        return
    copies = spare[: len(targets) * row_size].reshape(-1, row_size)
    rows.take(sources, axis=0, out=copies, mode="clip")
    rows[targets] = copies
