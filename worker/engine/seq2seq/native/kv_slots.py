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
from worker.engine.runtime.host_arrays import bind_input, bind_output
from worker.engine.search.logit_rules import Ids
from worker.engine.seq2seq.native.kv_memory import KVMemory, copy_rows

POSITIONS_STEP = 16  # capacities for the target are multiples of it
# A step of a small model costs its calls more than its arithmetic, so many rows share them. Large models lose:
# attention walks through the keys and values of all rows.
_LEAST_SLOTS, _MOST_SLOTS = 32, 128  # a batch of the queue has 4,096 tokens, some 160 sentences
_SLOTS_STEP = 8
_LANE_BYTES = 64 * 2**20  # of keys, values and logits
_LOGIT_BYTES = 4
_SENTENCE_TOKENS = 64  # of a source, and of a target: more than most have


@dataclass(frozen=True, slots=True)
class KVSlotShape:
    """The sizes of one model's keys and values."""

    num_layers: int  # L
    num_heads: int  # N
    head_size: int  # H
    dtype: np.dtype[Any]


def slot_count(shape: KVSlotShape, num_ids: int, beams: int) -> int:
    """How many sentences a lane decodes at once, for a model with keys and values of `shape` and `num_ids` ids in its
    head. It depends on nothing else, so that a worker's memory does not depend on the load of its machine."""
    token_bytes = 2 * shape.num_layers * shape.num_heads * shape.head_size * shape.dtype.itemsize
    sentence_bytes = (1 + beams) * _SENTENCE_TOKENS * token_bytes + beams * num_ids * _LOGIT_BYTES
    fits = _LANE_BYTES // sentence_bytes // _SLOTS_STEP * _SLOTS_STEP
    return min(max(fits, _LEAST_SLOTS), _MOST_SLOTS)


class Slots(Protocol):
    """The slots of one lane, on the host or on a device."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    @property
    def longest(self) -> int:
        """The largest number of tokens that a running row has cached."""

    def allocate(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        """Allocate `sentences` free slots for sources of at most `source_length` tokens, with room for `positions`
        target tokens at first; they grow."""

    def append(self, cross: Any) -> None:
        """Add sentences after the others, by their cross-attention keys and values (m, S, 2 L, N, H), which are in the
        memory of these slots or on the host."""

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        """Set the past of all rows to keys and values computed elsewhere, key and value of each layer (R, N, T, H)."""

    def select(self, rows: Ids) -> None:
        """Row i gets the content of row rows[i]; rows that are not in `rows` are dropped."""

    def bind(self, binding: IOBinding) -> None:
        """Bind the running rows to the inputs and outputs of a decoder, with capacity for one more position."""

    def advance(self) -> None:
        """Add 1 to the length of every row, after a step has added a position."""


class KVSlots:
    """Slots in the host's memory."""

    def __init__(self, shape: KVSlotShape) -> None:
        self._reuses = 0
        self.num_sentences = 0  # B
        self._shape = shape
        self._beams = 1
        sizes = 2 * shape.num_layers, shape.num_heads, shape.head_size
        self._past = KVMemory(sizes, shape.dtype, step=POSITIONS_STEP, slack=1.5)  # (2 L, R, N, C, H)
        self._cross = KVMemory(sizes, shape.dtype, step=1, slack=1.25)  # (2 L, B, N, S, H)
        self._positions = np.zeros(0, np.int32)  # (R,): tokens that are cached
        self._source_ends = np.zeros(0, np.int32)  # (B,): last position of each source
        self._shared = SharedBeginnings()
        self._longest = np.zeros((2, 1), np.int32)  # of positions and of sources, + 1: inputs of the attention
        self._bound: WeakKeyDictionary[IOBinding, tuple[int, ...]] = WeakKeyDictionary()  # see `_memory`

    @property
    def num_rows(self) -> int:
        """R: the rows of all running sentences."""
        return self.num_sentences * self._beams

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of past and cross-attention; an `allocate` that needs no new memory counts as one reuse."""
        past, cross = self._past.buffer, self._cross.buffer
        return BufferStats(past.num_bytes + cross.num_bytes, past.allocations + cross.allocations, self._reuses)

    @property
    def longest(self) -> int:
        return int(self._positions[: self.num_rows].max(initial=0))

    def allocate(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        allocations = self.buffer_stats.allocations
        self.num_sentences, self._beams = 0, beams
        self._past.allocate(sentences * beams, 1, positions)
        self._cross.allocate(sentences, source_length)
        self._shared.allocate(sentences, beams)
        if len(self._positions) < sentences * beams:
            self._positions = np.zeros(sentences * beams, np.int32)
        if len(self._source_ends) < sentences:
            self._source_ends = np.zeros(sentences, np.int32)
        self._reuses += self.buffer_stats.allocations == allocations

    def append(self, cross: NDArray[Any]) -> None:
        """Add sentences after the others: their cross-attention keys and values (m, S, 2 L, N, H)."""
        start, length = self.num_sentences, cross.shape[1]
        stop = start + len(cross)
        longest = int(self._source_ends[:start].max(initial=-1)) + 1
        slots = self._cross.array.shape[1]
        self._cross.fit(stop, longest, max(longest, length), reserved_rows=slots)
        self._cross.array[:, start:stop, :, :length] = cross.transpose(2, 0, 3, 1, 4)
        self._source_ends[start:stop] = length - 1
        self._positions[start * self._beams : stop * self._beams] = 0
        self._shared.clear(slice(start, stop))
        self.num_sentences = stop

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        """Set the past of all rows: key and value of each layer (R, N, T, H)."""
        length = present[0].shape[2]
        self._past.fit(self.num_rows, 0, length)
        for memory, tensor in zip(self._past.array, present, strict=True):
            memory[: self.num_rows, :, :length] = tensor
        self._positions[: self.num_rows] = length

    def select(self, rows: Ids) -> None:
        """Row i gets the content of row rows[i]; rows that are not in `rows` are dropped.

        Copies only rows that change, and of these the positions that differ; `rows` must be such that no row is
        overwritten before it is copied.
        """
        beams, past = self._beams, self._past.array
        moved = np.flatnonzero(rows != np.arange(len(rows)))
        old = rows[moved]
        owned = self._shared.select(rows, self._positions)[moved]
        copy_rows(past, moved, old, owned, self._positions[old])
        self._positions[: len(rows)] = self._positions[rows]
        sentences = rows[::beams] // beams
        longest = int(self._source_ends[: self.num_sentences].max(initial=0)) + 1
        moved = np.flatnonzero(sentences != np.arange(len(sentences)))
        ends = np.full(len(moved), longest, np.int32)
        copy_rows(self._cross.array, moved, sentences[moved], np.zeros_like(ends), ends)
        self._source_ends[: len(sentences)] = self._source_ends[sentences]
        self.num_sentences = len(sentences)

    def bind(self, binding: IOBinding) -> None:
        """As `Slots.bind`; nothing is done if the binding is already bound to these rows in the same memory."""
        # Fit only the running rows: free slots are filled before a step, so some are free only if no sentence waits.
        self._past.fit(self.num_rows, self.longest, self.longest + 1)
        self._longest[0] = self.longest + 1
        self._longest[1] = self._source_ends[: self.num_sentences].max(initial=0) + 1
        memory = self._memory()
        if self._bound.get(binding) == memory:
            return
        self._bound[binding] = memory
        bind_input(binding, "positions", self._positions[: self.num_rows])
        bind_input(binding, "source_lengths", self._source_ends[: self.num_sentences])
        bind_input(binding, "longest", self._longest[0])
        bind_input(binding, "longest_source", self._longest[1])
        for layer in range(self._shape.num_layers):
            for part, name in enumerate(("key", "value")):
                past, cross = (
                    memory[2 * layer + part, :count]
                    for memory, count in ((self._past.array, self.num_rows), (self._cross.array, self.num_sentences))
                )
                bind_input(binding, f"past.{layer}.{name}", past)
                bind_output(binding, f"present.{layer}.{name}", past)
                bind_input(binding, f"cross.{layer}.{name}", cross)
                bind_output(binding, f"lent.{layer}.{name}", cross)

    def advance(self) -> None:
        self._positions[: self.num_rows] += 1

    def _memory(self) -> tuple[int, ...]:
        """What a binding depends on: the number of rows, and address and shape of every array that a decoder reads or
        writes. (Rows have the same sentences as long as `beams` is the same, and each number of beams has a decoder of
        its own.)"""
        past, cross = self._past.array, self._cross.array
        addresses = (array.ctypes.data for array in (past, cross, self._positions, self._source_ends))
        return self.num_rows, *past.shape, *cross.shape, *addresses


class SharedBeginnings:
    """For each sentence slot, how many leading positions of its beams' caches are identical, so that a beam that takes
    over another's row copies only the rest."""

    def __init__(self) -> None:
        self._shared = np.zeros((0, 1, 1), np.int32)  # (B, k, k): positions that two rows have in common

    def allocate(self, sentences: int, beams: int) -> None:
        """Allocate `sentences` free slots of `beams` rows."""
        self._shared = np.zeros((sentences, beams, beams), np.int32)

    def clear(self, slots: slice) -> None:
        """Note that new sentences, without positions, begin in `slots`."""
        self._shared[slots] = 0

    def select(self, rows: Ids, positions: NDArray[np.int32]) -> NDArray[np.int32]:
        """Row i takes over the beam of row rows[i], which has positions[rows[i]] positions. Returns how many of these
        row i already holds (R,)."""
        k = self._shared.shape[1]
        if k == 1:
            return np.zeros(len(rows), np.int32)
        old = rows.reshape(-1, k)  # (B, k)
        slots = old[:, 0] // k  # (B,)
        continued = old - k * slots[:, None]  # (B, k), within the sentence
        here = np.arange(len(slots))
        owned: NDArray[np.int32] = self._shared[here[:, None], np.arange(k), continued]
        owned[slots != here] = 0  # rows of another sentence
        alike = continued[:, :, None] == continued[:, None, :]  # (B, k, k)
        shared = self._shared[slots[:, None, None], continued[:, :, None], continued[:, None, :]]
        self._shared[: len(slots)] = np.where(alike, positions[old][:, :, None], shared)
        return owned.reshape(-1)
