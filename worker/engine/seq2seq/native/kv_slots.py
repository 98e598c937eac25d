"""
The keys and values of one lane for native graphs: a slot per sentence, which the next sentence takes when it is free.

Past and present are the same memory: a step writes one position of each row, and reads those before it. Running rows
are always the first ones, so a step is bound to a slice. Positions beyond a row's own length are never read.

Shapes: R rows, `beams` per sentence · B sentences · S source length · C capacity · L layers · N heads · H head size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from onnxruntime import IOBinding

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.growing_buffer import GrowingBuffer
from worker.engine.runtime.host_arrays import bind_input, bind_output
from worker.engine.search.logit_rules import Ids

_CAPACITY_STEP = 16  # positions


@dataclass(frozen=True, slots=True)
class SlotShape:
    """The sizes of one model's keys and values."""

    num_layers: int  # L
    num_heads: int  # N
    head_size: int  # H
    dtype: np.dtype[Any]


class Slots(Protocol):
    """The slots of one lane, on the host or on a device."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    @property
    def longest(self) -> int:
        """The largest number of tokens that a running row has cached."""

    def begin(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        """Allocate slots for so many sentences of at most `source_length` tokens, with `positions` for the target at
        first; they grow. Every slot is free."""

    def admit(self, cross: Any) -> None:
        """Add sentences after the others, by their cross-attention keys and values (m, S, 2 L, N, H), which are in the
        memory of these slots or on the host."""

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        """Set the past of all rows to keys and values computed elsewhere, key and value of each layer (R, N, T, H)."""

    def select(self, rows: Ids) -> None:
        """Row i continues what was row rows[i]; rows that are not in `rows` are dropped."""

    def bind(self, binding: IOBinding) -> None:
        """Bind the running rows to the inputs and outputs of a decoder, with capacity for one more position."""

    def advance(self) -> None:
        """Add 1 to the length of every row, after a step has added a position."""


class KVSlots:
    """Slots in the host's memory."""

    def __init__(self, shape: SlotShape) -> None:
        self._reuses = 0
        self.num_sentences = 0  # B
        self._shape = shape
        self._beams = 1
        self._max_capacity = 0  # the largest that rows have needed so far
        self._past_buffer, self._cross_buffer = GrowingBuffer(shape.dtype), GrowingBuffer(shape.dtype)
        self._past = self._lay_out(self._past_buffer, 0, 0)  # (2 L, R, N, C, H)
        self._cross = self._lay_out(self._cross_buffer, 0, 0)  # (2 L, B, N, S, H)
        self._positions = np.zeros(0, np.int32)  # (R,): tokens that are cached
        self._source_ends = np.zeros(0, np.int32)  # (B,): last position of each source
        self._longest = np.zeros((2, 1), np.int32)  # of positions and of sources, + 1: inputs of the attention
        self._bound: WeakKeyDictionary[IOBinding, int] = WeakKeyDictionary()  # rows that are bound, in this memory

    @property
    def num_rows(self) -> int:
        """R."""
        return self.num_sentences * self._beams

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of past and cross-attention; a `begin` that allocates nothing counts as one reuse."""
        past, cross = self._past_buffer, self._cross_buffer
        return BufferStats(past.num_bytes + cross.num_bytes, past.allocations + cross.allocations, self._reuses)

    @property
    def longest(self) -> int:
        """The largest number of tokens that a running row has cached."""
        return int(self._positions[: self.num_rows].max(initial=0))

    def begin(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        """See `Slots.begin`."""
        allocations, memory = self.buffer_stats.allocations, self._memory()
        self.num_sentences, self._beams = 0, beams
        self._past = self._cross = np.empty((0,) * 5, self._shape.dtype)  # else it would keep the memory
        capacity = self._capacity(sentences * beams, round_up(positions))
        self._past = self._lay_out(self._past_buffer, sentences * beams, capacity)
        self._cross = self._lay_out(self._cross_buffer, sentences, round_up(source_length))
        if len(self._positions) < sentences * beams:
            self._positions = np.zeros(sentences * beams, np.int32)
        if len(self._source_ends) < sentences:
            self._source_ends = np.zeros(sentences, np.int32)
        if self._memory() != memory:
            self._bound.clear()
        self._reuses += self.buffer_stats.allocations == allocations

    def admit(self, cross: NDArray[Any]) -> None:
        """Add sentences after the others: their cross-attention keys and values (m, S, 2 L, N, H)."""
        start, length = self.num_sentences, cross.shape[1]
        stop = start + len(cross)
        self._cross[:, start:stop, :, :length] = cross.transpose(2, 0, 3, 1, 4)
        self._source_ends[start:stop] = length - 1
        self._positions[start * self._beams : stop * self._beams] = 0
        self.num_sentences = stop

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        """Set the past of all rows: key and value of each layer (R, N, T, H)."""
        length = present[0].shape[2]
        for memory, tensor in zip(self._past, present, strict=True):
            memory[: self.num_rows, :, :length] = tensor
        self._positions[: self.num_rows] = length

    def select(self, rows: Ids) -> None:
        """Row i continues what was row rows[i]; rows that are not in `rows` are dropped.

        Copies only rows that change; `rows` must be such that no row is overwritten before it is copied.
        """
        beams, longest = self._beams, self.longest
        for row in np.flatnonzero(rows != np.arange(len(rows))).tolist():
            self._past[:, row, :, :longest] = self._past[:, rows[row], :, :longest]
        self._positions[: len(rows)] = self._positions[rows]
        sentences = rows[::beams] // beams
        longest = int(self._source_ends[: self.num_sentences].max(initial=0)) + 1
        for slot in np.flatnonzero(sentences != np.arange(len(sentences))).tolist():
            self._cross[:, slot, :, :longest] = self._cross[:, sentences[slot], :, :longest]
        self._source_ends[: len(sentences)] = self._source_ends[sentences]
        self.num_sentences = len(sentences)

    def bind(self, binding: IOBinding) -> None:
        """See `Slots.bind`. A binding that these rows have been bound to, in the same memory, is left as it is."""
        if self.longest >= self._past.shape[3]:
            self._grow()
        self._longest[0] = self.longest + 1
        self._longest[1] = self._source_ends[: self.num_sentences].max(initial=0) + 1
        if self._bound.get(binding) == self.num_rows:
            return
        self._bound[binding] = self.num_rows
        bind_input(binding, "positions", self._positions[: self.num_rows])
        bind_input(binding, "source_lengths", self._source_ends[: self.num_sentences])
        bind_input(binding, "longest", self._longest[0])
        bind_input(binding, "longest_source", self._longest[1])
        for layer in range(self._shape.num_layers):
            for part, name in enumerate(("key", "value")):
                past, cross = (
                    memory[2 * layer + part, :count]
                    for memory, count in ((self._past, self.num_rows), (self._cross, self.num_sentences))
                )
                bind_input(binding, f"past.{layer}.{name}", past)
                bind_output(binding, f"present.{layer}.{name}", past)
                bind_input(binding, f"cross.{layer}.{name}", cross)
                bind_output(binding, f"lent.{layer}.{name}", cross)

    def advance(self) -> None:
        """See `Slots.advance`."""
        self._positions[: self.num_rows] += 1

    def _grow(self) -> None:
        """Double the capacity of every row."""
        rows, longest, old = self._past.shape[1], self.longest, self._past
        self._past_buffer.release()  # `old` keeps the memory
        self._past = self._lay_out(self._past_buffer, rows, 2 * old.shape[3])
        self._past[:, : self.num_rows, :, :longest] = old[:, : self.num_rows, :, :longest]
        self._max_capacity = self._past.shape[3]
        self._bound.clear()

    def _memory(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Where every array is that a decoder reads or writes, and how it is laid out. (A step's rows have the same
        sentences as long as `beams` is the same, and each number of beams has a decoder of its own.)"""
        arrays = self._past, self._cross, self._positions, self._source_ends
        return tuple((array.ctypes.data, array.shape) for array in arrays)

    def _capacity(self, rows: int, positions: int) -> int:
        """The capacity C: the largest needed so far if the memory for it is already allocated, else `positions`."""
        row_size = 2 * self._shape.num_layers * self._shape.num_heads * self._shape.head_size
        fits = rows * self._max_capacity * row_size <= self._past_buffer.size
        return max(positions, self._max_capacity) if fits else positions

    def _lay_out(self, buffer: GrowingBuffer, rows: int, length: int) -> NDArray[Any]:
        """An array (2 L, rows, N, length, H) over the buffer."""
        return buffer.lay_out((2 * self._shape.num_layers, rows, self._shape.num_heads, length, self._shape.head_size))


def round_up(length: int) -> int:
    """The capacity for `length` positions: a multiple of `_CAPACITY_STEP`."""
    return max(1, -(-length // _CAPACITY_STEP)) * _CAPACITY_STEP
