"""
The memory of one lane for graphs of our own: a slot a sentence, filled again as soon as it is free.

Past and present are the same memory: a step writes one position of each row, and reads what lies before it. The rows
that run are always the first ones, so a step is bound to a slice. What lies beyond a row's own length is never read.

Shapes: R rows, `beams` a sentence · B sentences · S source length · C capacity · L layers · N heads · H head size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import IOBinding

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.search.logit_rules import Ids

_STEP = 16  # positions: capacities are multiples of it


@dataclass(frozen=True, slots=True)
class SlotShape:
    """The keys and values of one model."""

    num_layers: int  # L
    num_heads: int  # N
    head_size: int  # H
    dtype: np.dtype[Any]


class KVSlots:
    """Keys and values of the sentences that run, and where each row is."""

    def __init__(self, shape: SlotShape) -> None:
        self._allocations = self._reuses = 0
        self.num_sentences = 0  # B
        self._shape = shape
        self._beams = 1
        self._grown = 0  # the greatest capacity that was needed yet
        self._memory = {"past": np.empty(0, shape.dtype), "cross": np.empty(0, shape.dtype)}  # flat
        self._past = self._laid_out("past", 0, 0)  # (2 L, R, N, C, H)
        self._cross = self._laid_out("cross", 0, 0)  # (2 L, B, N, S, H)
        self._positions = np.zeros(0, np.int32)  # (R,): tokens that are cached
        self._source_ends = np.zeros(0, np.int32)  # (B,): last position of each source
        self._longest = np.zeros((2, 1), np.int32)  # of positions and of sources, + 1: what the attention asks for
        self._places: Any = None  # what is bound to where

    @property
    def num_rows(self) -> int:
        """R."""
        return self.num_sentences * self._beams

    @property
    def buffer_stats(self) -> BufferStats:
        """Of past and cross-attention; one reuse for each `begin` that allocated nothing."""
        num_bytes = sum(memory.nbytes for memory in tuple(self._memory.values()))
        return BufferStats(num_bytes, self._allocations, self._reuses)

    @property
    def longest(self) -> int:
        """The greatest number of tokens that a row has cached."""
        return int(self._positions[: self.num_rows].max(initial=0))

    def begin(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        """Room for so many sentences of at most `source_length` tokens, and at first for `positions` of a target."""
        before = self._allocations
        self.num_sentences, self._beams, self._places = 0, beams, None
        self._past = self._cross = np.empty((0,) * 5, self._shape.dtype)  # nothing else keeps what is too small
        self._past = self._laid_out("past", sentences * beams, self._capacity(sentences * beams, rounded(positions)))
        self._cross = self._laid_out("cross", sentences, rounded(source_length))
        self._positions = np.zeros(sentences * beams, np.int32)
        self._source_ends = np.zeros(sentences, np.int32)
        self._reuses += self._allocations == before

    def admit(self, cross: NDArray[Any]) -> None:
        """New sentences, behind the others: what the encoder said of them (m, S, 2 L, N, H)."""
        start, length = self.num_sentences, cross.shape[1]
        stop = start + len(cross)
        self._cross[:, start:stop, :, :length] = cross.transpose(2, 0, 3, 1, 4)
        self._source_ends[start:stop] = length - 1
        self._positions[start * self._beams : stop * self._beams] = 0
        self.num_sentences = stop

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        """What all rows have said so far was computed elsewhere: keys and values of each layer (R, N, T, H)."""
        length = present[0].shape[2]
        for memory, tensor in zip(self._past, present, strict=True):
            memory[: self.num_rows, :, :length] = tensor
        self._positions[: self.num_rows] = length

    def select(self, rows: Ids) -> None:
        """Row i continues what was row rows[i]; rows that are not named are gone. Copies what changes, and no row
        that is copied from is overwritten before."""
        beams, longest = self._beams, self.longest
        for row in np.flatnonzero(rows != np.arange(len(rows))).tolist():
            self._past[:, row, :, :longest] = self._past[:, rows[row], :, :longest]
        self._positions[: len(rows)] = self._positions[rows]
        sources = rows[::beams] // beams
        longest = int(self._source_ends[: self.num_sentences].max(initial=0)) + 1
        for place in np.flatnonzero(sources != np.arange(len(sources))).tolist():
            self._cross[:, place, :, :longest] = self._cross[:, sources[place], :, :longest]
        self._source_ends[: len(sources)] = self._source_ends[sources]
        self.num_sentences = len(sources)

    def bind(self, binding: IOBinding) -> None:
        """Bind the rows that run, where that has changed since the last step; make room for one more position."""
        if self.longest >= self._past.shape[3]:
            self._grow()
        self._longest[0] = self.longest + 1
        self._longest[1] = self._source_ends[: self.num_sentences].max(initial=0) + 1
        places = self.num_rows, self._past.ctypes.data, self._past.shape, id(binding)
        if places == self._places:
            return
        self._places = places
        _bind(binding, "positions", self._positions[: self.num_rows])
        _bind(binding, "source_lengths", self._source_ends[: self.num_sentences])
        _bind(binding, "longest", self._longest[0])
        _bind(binding, "longest_source", self._longest[1])
        for layer in range(self._shape.num_layers):
            for part, name in enumerate(("key", "value")):
                past, cross = (
                    memory[2 * layer + part, :count]
                    for memory, count in ((self._past, self.num_rows), (self._cross, self.num_sentences))
                )
                _bind(binding, f"past.{layer}.{name}", past, output=f"present.{layer}.{name}")
                _bind(binding, f"cross.{layer}.{name}", cross, output=f"lent.{layer}.{name}")

    def advance(self) -> None:
        """A step was made: every row has one more position."""
        self._positions[: self.num_rows] += 1

    def _grow(self) -> None:
        """Twice the positions for every row."""
        rows, longest, old = self._past.shape[1], self.longest, self._past
        self._memory["past"] = np.empty(0, self._shape.dtype)  # `old` keeps the memory
        self._past = self._laid_out("past", rows, 2 * old.shape[3])
        self._past[:, : self.num_rows, :, :longest] = old[:, : self.num_rows, :, :longest]
        self._grown = self._past.shape[3]

    def _capacity(self, rows: int, positions: int) -> int:
        """C: as many as were needed before, where the memory for them is there; else `positions`."""
        row_size = 2 * self._shape.num_layers * self._shape.num_heads * self._shape.head_size
        fits = rows * self._grown * row_size <= self._memory["past"].size
        return max(positions, self._grown) if fits else positions

    def _laid_out(self, name: str, rows: int, length: int) -> NDArray[Any]:
        """(2 L, rows, N, length, H) at the start of a memory, which grows where it is too small."""
        shape = (2 * self._shape.num_layers, rows, self._shape.num_heads, length, self._shape.head_size)
        size = math.prod(shape)
        if self._memory[name].size < size:
            self._allocations += 1
            self._memory[name] = np.empty(0, self._shape.dtype)  # the old one goes first
            self._memory[name] = np.empty(size, self._shape.dtype)
        return self._memory[name][:size].reshape(shape)


def _bind(binding: IOBinding, name: str, array: NDArray[Any], *, output: str = "") -> None:
    binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    if output:
        binding.bind_output(output, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


def rounded(length: int) -> int:
    """The capacity for so many positions."""
    return max(1, -(-length // _STEP)) * _STEP
