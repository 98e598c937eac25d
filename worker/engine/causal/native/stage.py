"""
A stage of a body: some of its layers in a session, and what one lane keeps for them. An unsplit body is one stage.

The first stage reads ids, the others the residual of the stage before; the last gives hidden states, the others the
residual. Each numbers its layers from 0 and has the keys and values of these alone, so a stage may be on a device or in
a process of its own: between stages travel the residual and the inputs of a call.

Knows: a session, its inputs, buffers. Does not know: the other stages, which sequences are read together.

Shapes: M tokens · R rows · D width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession, IOBinding

from worker.engine.causal.native.kv_cache import SequenceCache
from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.causal.native.row_table import EMBEDDED, IDS, RowTable
from worker.engine.causal.native.slot_memory import SlotMemory, SlotShape
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.host_arrays import GrowingBuffer, bind_input, bind_output

RESIDUAL, NEXT_RESIDUAL, HIDDEN = "residual", "next_residual", "hidden"  # inputs and outputs of stages

States = NDArray[Any]  # (M, D)


class StageLane(Protocol):
    """One lane's part of a stage. `residual` (M, D) is the output of the stage before, None for the first stage. Each
    call returns the residual for the next stage, or in the last stage the hidden states."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    def begin_sequence(self, positions: int) -> None:
        """Begin a sequence that is read in several calls, of at most `positions`."""

    def begin_slots(self, slots: int, capacity: int) -> None:
        """Allocate `slots` free slots of `capacity` positions."""

    def grow_slots(self, capacity: int, rows: int, longest: int) -> None:
        """Make room for `capacity` positions in every slot; the first `rows` slots hold at most `longest` tokens."""

    def take(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        """Copy positions of the sequence into slots: (start, stop, slot, the position in the slot)."""

    def move(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Copy slots, one after the other: (to, from, number of tokens)."""

    def read_from_start(self, rows: PackedRows, residual: States | None) -> States:
        """Read rows of whole sequences; their keys and values are dropped."""

    def read_sequence(self, rows: PackedRows, residual: States | None) -> States:
        """Read one row behind the tokens of the sequence, which keeps its keys and values."""

    def read_slots(self, rows: PackedRows, first: int, residual: States | None) -> States:
        """Append rows to the slots from `first` on."""

    def step(self, ids: NDArray[np.int64], lengths: NDArray[np.int32], residual: States | None) -> States:
        """Append one id (R,) to each of the first R slots, which hold `lengths` (R,) tokens. The next step overwrites
        the result."""


@dataclass(frozen=True, slots=True)
class SessionStage:
    """A stage in this process."""

    session: InferenceSession
    shape: SlotShape  # of its layers
    width: int  # D
    on_cpu: bool
    table: RowTable | None = None  # its embeddings, if the graph takes rows of them in place of ids

    def new_lane(self) -> "SessionLane":
        return SessionLane(self)


class SessionLane:
    """A `StageLane` whose stage is a session of this process."""

    def __init__(self, stage: SessionStage) -> None:
        self._stage = stage
        self._session = stage.session
        self._dtype = stage.shape.dtype
        names = [node.name for node in self._session.get_inputs()]
        self._reads_ids = RESIDUAL not in names
        self._past = [name for name in names if name.startswith("past.")]
        self._output = next(node.name for node in self._session.get_outputs() if node.name in (HIDDEN, NEXT_RESIDUAL))
        shape = stage.shape
        is_cleared = not stage.on_cpu
        self._cache = SequenceCache(
            shape.num_layers, shape.kv_heads, shape.head_size, shape.dtype, is_cleared=is_cleared
        )
        self._slots = SlotMemory(shape, is_cleared=is_cleared)
        self._no_bias = np.zeros((1, 1, 0, 0), self._dtype)
        self._binding: IOBinding = self._session.io_binding()  # of steps
        self._bound: Any = None  # rows and memory of the last step
        self._step = PackedRows.one_each(0)
        self._feeds: dict[str, NDArray[Any]] = {}  # inputs of a step, kept from one step to the next
        self._dropped = GrowingBuffer(self._dtype)  # a layer's keys and values, of calls that do not keep them
        self._input, self._result = GrowingBuffer(self._dtype), GrowingBuffer(self._dtype)
        self._states = self._result.lay_out((0, stage.width))

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the sequence, the slots, and a step's residual and result."""
        outputs = (self._input, self._result)
        own = BufferStats(sum(buffer.num_bytes for buffer in outputs), sum(buffer.allocations for buffer in outputs))
        return self._slots.buffer_stats + self._cache.buffer_stats + own

    def begin_sequence(self, positions: int) -> None:
        self._cache.begin(positions)

    def begin_slots(self, slots: int, capacity: int) -> None:
        self._bound = None
        self._slots.allocate(slots, capacity)

    def grow_slots(self, capacity: int, rows: int, longest: int) -> None:
        self._slots.grow(capacity, rows, longest)

    def take(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        for start, stop, slot, position in rows:
            self._slots.take(self._cache, start, stop, slot, position)

    def move(self, moves: Sequence[tuple[int, int, int]]) -> None:
        self._slots.move(moves)

    def read_from_start(self, rows: PackedRows, residual: States | None) -> States:
        shape, count = self._stage.shape, len(rows.ends)
        no_past = np.zeros((count, shape.kv_heads, 0, shape.head_size), self._dtype)
        if not self._stage.on_cpu:
            feeds = self._feeds_of(rows, residual) | dict.fromkeys(self._past, no_past)
            states: States = self._session.run([self._output], feeds)[0]
            return states
        # Layers run one after the other, so all write their keys and values into the same memory.
        dropped = self._dropped.lay_out((2, count, shape.kv_heads, int(rows.longest[0]), shape.head_size))

        def bind(binding: IOBinding) -> None:
            for past in self._past:
                bind_input(binding, past, no_past)
                bind_output(binding, past.replace("past.", "present."), dropped[int(past.endswith("value"))])

        return self._read_into(rows, residual, bind)

    def read_sequence(self, rows: PackedRows, residual: States | None) -> States:
        return self._read_into(rows, residual, self._cache.bind)

    def read_slots(self, rows: PackedRows, first: int, residual: States | None) -> States:
        if not rows.positions[:, 0].any():
            self._slots.begin_rows(first, len(rows.ends))
        return self._read_into(rows, residual, lambda binding: self._slots.bind(binding, first, len(rows.ends)))

    def step(self, ids: NDArray[np.int64], lengths: NDArray[np.int32], residual: States | None) -> States:
        rows, step = len(ids), self._step
        bound = rows, self._slots.location
        if self._bound != bound:
            step = self._step = PackedRows.one_each(rows)
            own = None if residual is None else self._input.lay_out((rows, self._stage.width))
            self._feeds = self._feeds_of(step, own)
            self._states = self._result.lay_out((rows, self._stage.width))
        step.ids[:], step.positions[:, 0], step.ends[:], step.longest[:] = ids, lengths, lengths, lengths.max() + 1
        if residual is not None:
            self._feeds[RESIDUAL][:] = residual
        elif self._stage.table is not None:
            self._stage.table.read(step.ids, self._feeds[EMBEDDED])
        if self._bound != bound or not self._stage.on_cpu:  # a GPU gets a copy when an input is bound
            self._binding.clear_binding_inputs()
            self._bind(self._binding, self._feeds, self._states)
            self._slots.bind(self._binding, 0, rows)
            self._bound = bound
        self._session.run_with_iobinding(self._binding)
        return self._states

    def _read_into(self, rows: PackedRows, residual: States | None, bind: Callable[[IOBinding], None]) -> States:
        """Run the stage; keys and values are written to the memory that `bind` binds as past and present."""
        binding, feeds = self._session.io_binding(), self._feeds_of(rows, residual)
        states = np.empty((rows.num_tokens, self._stage.width), self._dtype)
        self._bind(binding, feeds, states)
        bind(binding)
        self._session.run_with_iobinding(binding)
        return states

    def _bind(self, binding: IOBinding, feeds: dict[str, NDArray[Any]], states: States) -> None:
        for name, value in feeds.items():
            bind_input(binding, name, value)
        bind_output(binding, self._output, states)

    def _feeds_of(self, rows: PackedRows, residual: States | None) -> dict[str, NDArray[Any]]:
        """The inputs without the past. All are contiguous."""
        assert (residual is None) == self._reads_ids
        return {
            **(self._first_feed(rows.ids) if residual is None else {RESIDUAL: np.ascontiguousarray(residual)}),
            "rows": rows.rows,
            "places": rows.places,
            "positions": rows.positions,
            "ends": rows.ends,
            "longest": rows.longest,
            "is_shared": np.array(rows.bias is not None),
            "bias": self._no_bias if rows.bias is None else self._to_dtype(rows.bias),
        }

    def _first_feed(self, ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        if (table := self._stage.table) is None:
            return {IDS: ids}
        embedded = table.empty(len(ids))
        table.read(ids, embedded)
        return {EMBEDDED: embedded}

    def _to_dtype(self, bias: NDArray[np.float32]) -> NDArray[Any]:
        """The bias in the graph's type. In float16, whose range does not hold -1e30, the lowest number masks."""
        if self._dtype == bias.dtype:
            return bias
        return np.maximum(bias, np.finfo(np.float16).min).astype(self._dtype)
