"""
Slots in a device's memory: as `worker.engine.seq2seq.native.kv_slots`, but keys and values never leave the device.

Past and present are the same memory here, too. When rows move, all of them are copied into a second set of buffers, and
the two sets change roles: a copy within the device that delays no step.

What onnxruntime 1.31 requires on CUDA was read in its sources and documents, not run:

- GroupQueryAttention exists in float16 and bfloat16 only; `total_sequence_length` (`longest` here) has to lie in host
  memory, `seqlens_k` (`positions` here) on the device. It appends in place where past and present begin at the same
  address (contrib_ops/cuda/bert/group_query_attention.cc). The head size is a multiple of 8.
- Its CPU kernel can attend to a cache without adding keys to it; the CUDA kernel shows nothing of the kind. So
  cross-attention is MultiHeadAttention with a mask (contrib_ops/cuda/bert/multihead_attention.cc: keys (B, N, S, H),
  format Q_K_V_BSNH_BNSH_BNSH).
- An input in host memory is copied when it is bound, not when the graph runs (IOBinding::BindInput), so inputs that
  change are bound again at every step. Outputs bound to host memory are copied there at the end of the run.

Shapes: R rows, `beams` per sentence · B sentences · S source length · C capacity · L layers · N heads · H head size.
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
from worker.engine.seq2seq.native.device_buffers import DeviceBuffers, DeviceCopies
from worker.engine.seq2seq.native.kv_memory import round_up
from worker.engine.seq2seq.native.kv_slots import POSITIONS_STEP, KVSlotShape


class DeviceKVSlots:
    """Slots in the memory of one device (`worker.engine.seq2seq.native.kv_slots.Slots`)."""

    def __init__(self, shape: KVSlotShape, device: Device, copies: DeviceCopies) -> None:
        self._reuses = 0
        self.num_sentences = 0  # B
        self._beams = 1
        self._copies = copies
        # The first of each two sets of buffers is in use; rows that move are copied into the second.
        self._past = [DeviceBuffers(shape, device), DeviceBuffers(shape, device)]  # (R, N, C, H)
        self._cross = [DeviceBuffers(shape, device), DeviceBuffers(shape, device)]  # (B, N, S, H)
        self._positions = np.zeros(0, np.int32)  # (R,): tokens that are cached
        self._mask = np.zeros((0, 0), np.int32)  # (B, S)
        self._longest = np.zeros(1, np.int32)  # of positions, + 1
        self._changes = 0  # of buffers or rows, since the slots were made
        self._bound: Any = None  # rows, changes and binding of the last step

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of all buffers; an `allocate` that needs no new memory counts as one reuse."""
        every = (*self._past, *self._cross)
        return sum((buffers.buffer_stats for buffers in every), BufferStats(reuses=self._reuses))

    @property
    def num_rows(self) -> int:
        """R: the rows of all running sentences."""
        return self.num_sentences * self._beams

    @property
    def longest(self) -> int:
        return int(self._positions[: self.num_rows].max(initial=0))

    def allocate(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        before = self.buffer_stats.allocations
        self.num_sentences, self._beams, self._bound = 0, beams, None
        for buffers in self._past:
            buffers.lay_out(sentences * beams, round_up(positions, POSITIONS_STEP))
        for buffers in self._cross:
            buffers.lay_out(sentences, round_up(source_length, POSITIONS_STEP))
        self._positions = np.zeros(sentences * beams, np.int32)
        self._mask = np.zeros((sentences, self._cross[0].length), np.int32)
        self._reuses += self.buffer_stats.allocations == before

    def append(self, cross: OrtValue | NDArray[Any]) -> None:
        """Add sentences after the others: their cross-attention keys and values (m, S, 2 L, N, H)."""
        count, length, *_ = cross.shape() if isinstance(cross, OrtValue) else cross.shape
        start, stop = self.num_sentences, self.num_sentences + count
        self._copies.place(cross, self._cross[0], start)
        self._mask[start:stop] = np.arange(self._mask.shape[1]) < length
        self._positions[start * self._beams : stop * self._beams] = 0
        self.num_sentences = stop
        self._changes += 1

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        """Set the past of all rows: key and value of each layer (R, N, T, H)."""
        self._copies.widen(present, self._past[0], self.num_rows)
        self._positions[: self.num_rows] = present[0].shape[2]

    def select(self, rows: Ids) -> None:
        if (rows != np.arange(len(rows))).any():
            self._copies.select(self._past[0], self.num_rows, self._past[1], rows)
            self._past.reverse()
            self._positions[: len(rows)] = self._positions[rows]
            self._changes += 1
        sentences = rows[:: self._beams] // self._beams
        if (sentences != np.arange(len(sentences))).any():
            self._copies.select(self._cross[0], self.num_sentences, self._cross[1], sentences)
            self._cross.reverse()
            self._mask[: len(sentences)] = self._mask[sentences]
            self._changes += 1
        self.num_sentences = len(sentences)

    def bind(self, binding: IOBinding) -> None:
        if self.longest >= self._past[0].length:
            self._grow()
        self._longest[0] = self.longest + 1
        bind_input(binding, "positions", self._positions[: self.num_rows])
        bind_input(binding, "longest", self._longest)
        bound = self.num_rows, self._changes, id(binding)
        if bound != self._bound:
            self._bound = bound
            past, cross = self._past[0], self._cross[0]
            past.bind_inputs(binding, past.names("past.{}.{}"), self.num_rows)
            past.bind_outputs(binding, past.names("present.{}.{}"), self.num_rows)
            cross.bind_inputs(binding, cross.names("cross.{}.{}"), self.num_sentences)
            bind_input(binding, "source_mask", self._mask[: self.num_sentences])
        binding.synchronize_inputs()

    def advance(self) -> None:
        self._positions[: self.num_rows] += 1

    def _grow(self) -> None:
        """Double the capacity of every row."""
        (old, new), rows = self._past, len(self._positions)
        new.lay_out(rows, 2 * old.length)
        self._copies.widen(old, new, self.num_rows)
        old.lay_out(rows, new.length)
        self._past.reverse()
        self._changes += 1
