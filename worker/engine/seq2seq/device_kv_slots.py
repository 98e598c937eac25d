"""
The memory of one lane on a device: as `worker.engine.seq2seq.kv_slots`, but keys and values never leave the device.

Past and present are the same memory there, too. Where rows move, all of them go over to a second bank, and the two
change places: a copy within the device, which no step waits for the host with.

What onnxruntime 1.31 asks for on CUDA was read in its sources and documents, not run:

- GroupQueryAttention exists in float16 and bfloat16 only; `total_sequence_length` (our `longest`) has to lie in host
  memory, `seqlens_k` (our `positions`) on the device. It appends in place where past and present begin at the same
  address (contrib_ops/cuda/bert/group_query_attention.cc). Heads are a multiple of 8 wide.
- That it reads a borrowed cache where there are no new keys, as its CPU kernel does, is not to be seen in the CUDA
  kernel; so cross-attention is MultiHeadAttention with a mask (contrib_ops/cuda/bert/multihead_attention.cc: keys
  (B, N, S, H), format Q_K_V_BSNH_BNSH_BNSH).
- What lies in host memory is copied when it is bound, and not when the graph runs (IOBinding::BindInput): whatever
  changes from step to step is bound anew at every step. Outputs bound to host memory are copied there at the end of
  the run.

Shapes: R rows, `beams` a sentence · B sentences · S source length · C capacity · L layers · N heads · H head size.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import IOBinding, OrtValue

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.device import Device
from worker.engine.runtime.host_arrays import bind_input
from worker.engine.search.logit_rules import Ids
from worker.engine.seq2seq.device_buffers import DeviceBuffers, DeviceCopies
from worker.engine.seq2seq.kv_slots import SlotShape, rounded


class DeviceKVSlots:
    """Keys and values of the sentences that run, and where each row is."""

    def __init__(self, shape: SlotShape, device: Device, moves: DeviceCopies) -> None:
        self._reuses = 0
        self.num_sentences = 0  # B
        self._beams = 1
        self._moves = moves
        # Of each two banks the first is in use; rows that move go to the second.
        self._past = [DeviceBuffers(shape, device), DeviceBuffers(shape, device)]  # (R, N, C, H)
        self._cross = [DeviceBuffers(shape, device), DeviceBuffers(shape, device)]  # (B, N, S, H)
        self._positions = np.zeros(0, np.int32)  # (R,): tokens that are cached
        self._mask = np.zeros((0, 0), np.int32)  # (B, S)
        self._longest = np.zeros(1, np.int32)  # of positions, + 1
        self._changes = 0  # of what is bound
        self._places: Any = None  # what is bound to where

    @property
    def buffer_stats(self) -> BufferStats:
        """Of all banks."""
        return sum((bank.buffer_stats for bank in (*self._past, *self._cross)), BufferStats(reuses=self._reuses))

    @property
    def num_rows(self) -> int:
        """R."""
        return self.num_sentences * self._beams

    @property
    def longest(self) -> int:
        """The greatest number of tokens that a row has cached."""
        return int(self._positions[: self.num_rows].max(initial=0))

    def begin(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        """Room for so many sentences of at most `source_length` tokens, and at first for `positions` of a target."""
        before = self.buffer_stats.allocations
        self.num_sentences, self._beams, self._places = 0, beams, None
        for bank in self._past:
            bank.lay_out(sentences * beams, rounded(positions))
        for bank in self._cross:
            bank.lay_out(sentences, rounded(source_length))
        self._positions = np.zeros(sentences * beams, np.int32)
        self._mask = np.zeros((sentences, self._cross[0].length), np.int32)
        self._reuses += self.buffer_stats.allocations == before

    def admit(self, cross: OrtValue | NDArray[Any]) -> None:
        """New sentences, behind the others: what the encoder said of them (m, S, 2 L, N, H)."""
        count, length, *_ = cross.shape() if isinstance(cross, OrtValue) else cross.shape
        start, stop = self.num_sentences, self.num_sentences + count
        self._moves.place(cross, self._cross[0], start)
        self._mask[start:stop] = np.arange(self._mask.shape[1]) < length
        self._positions[start * self._beams : stop * self._beams] = 0
        self.num_sentences = stop
        self._changes += 1

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        """What all rows have said so far was computed elsewhere: keys and values of each layer (R, N, T, H)."""
        self._moves.widen(present, self._past[0], self.num_rows)
        self._positions[: self.num_rows] = present[0].shape[2]

    def select(self, rows: Ids) -> None:
        """Row i continues what was row rows[i]; rows that are not named are gone."""
        if (rows != np.arange(len(rows))).any():
            self._moves.select(self._past[0], self.num_rows, self._past[1], rows)
            self._past.reverse()
            self._positions[: len(rows)] = self._positions[rows]
            self._changes += 1
        sources = rows[:: self._beams] // self._beams
        if (sources != np.arange(len(sources))).any():
            self._moves.select(self._cross[0], self.num_sentences, self._cross[1], sources)
            self._cross.reverse()
            self._mask[: len(sources)] = self._mask[sources]
            self._changes += 1
        self.num_sentences = len(sources)

    def bind(self, binding: IOBinding) -> None:
        """Bind the rows that run; make room for one more position."""
        if self.longest >= self._past[0].length:
            self._grow()
        self._longest[0] = self.longest + 1
        bind_input(binding, "positions", self._positions[: self.num_rows])
        bind_input(binding, "longest", self._longest)
        places = self.num_rows, self._changes, id(binding)
        if places != self._places:
            self._places = places
            past, cross = self._past[0], self._cross[0]
            past.read(binding, past.names("past.{}.{}"), self.num_rows)
            past.write(binding, past.names("present.{}.{}"), self.num_rows)
            cross.read(binding, cross.names("cross.{}.{}"), self.num_sentences)
            bind_input(binding, "source_mask", self._mask[: self.num_sentences])
        binding.synchronize_inputs()

    def advance(self) -> None:
        """A step was made: every row has one more position."""
        self._positions[: self.num_rows] += 1

    def _grow(self) -> None:
        """Twice the positions for every row."""
        (old, new), rows = self._past, len(self._positions)
        new.lay_out(rows, 2 * old.length)
        self._moves.widen(old, new, self.num_rows)
        old.lay_out(rows, new.length)
        self._past.reverse()
        self._changes += 1
