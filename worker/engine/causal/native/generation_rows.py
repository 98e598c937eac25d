"""
The rows of one lane that continue prompts with native graphs.

    prompts that share nothing    packed, many per call, into the slots of their rows
    a prompt too long for a call  in chunks that extend its row
    a shared prefix               read once; its keys and values are copied into each row, and the rest of the prompts
                                  read behind it, many per call
    a step                        one token of each row

The last token of a prompt is not read with the others: the next step reads it.

Knows: calls and their order. Does not know: how a token is chosen.

Shapes: R rows · D width · V vocabulary · M tokens.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.native.calls import LIMITS, Limits
from worker.engine.causal.native.graphs import NativeCausalGraphs
from worker.engine.causal.native.kv_slots import KVSlots
from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.growing_buffer import GrowingBuffer
from worker.engine.runtime.host_arrays import bind_input, bind_output
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Floats, Ids
from worker.graphs.causal import SHARED_ROOM

# Of keys and values of one lane: 32 rows of 1,000 positions in a model of Qwen2.5-0.5B's sizes take 0.8 GB.
MAX_SLOT_BYTES = 2 << 30


class CachedRows:
    """See `continuous_generation.Rows`."""

    shares_prefixes = True
    equal_lengths = False

    def __init__(self, graphs: NativeCausalGraphs, limits: Limits = LIMITS) -> None:
        self._graphs = graphs
        self._limits = limits
        self._slots = KVSlots(graphs.slot_shape)
        self._prefix_cache = graphs.new_cache()
        self._prefix: tuple[int, ...] = ()  # in the cache
        self._head = graphs.logits_head()
        self._binding = graphs.body.io_binding()
        self._head_binding = self._head.io_binding()
        self._bound: Any = None  # rows and memory of the last step
        self._step = PackedRows.one_each(0)
        self._buffers: dict[str, GrowingBuffer] = {}
        self._outputs: dict[str, NDArray[Any]] = {}

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of slots, of the cached prefix, and of a step's outputs."""
        outputs = tuple(self._buffers.values())
        own = BufferStats(sum(one.num_bytes for one in outputs), sum(one.allocations for one in outputs))
        return self._slots.buffer_stats + self._prefix_cache.buffer_stats + own

    def begin(self, rows: int, positions: int, max_positions: int) -> int:
        """See `Rows.begin`."""
        most = MAX_SLOT_BYTES // (self._graphs.slot_shape.position_bytes * max_positions)
        rows = max(1, min(rows, most))
        self._slots.begin(rows, positions)
        self._bound = None
        return rows

    def admit(self, prefix: Sequence[int], prompts: Sequence[Sequence[int]], run: RunContext) -> None:
        """See `Rows.admit`."""
        first, past = self._slots.num_rows, len(prefix)
        self._slots.reserve(max(len(prompt) for prompt in prompts))
        self._slots.admit(len(prompts))
        if past:
            self._read_prefix(prefix, run)
            for row in range(first, first + len(prompts)):
                self._slots.take(self._prefix_cache, 0, past, row)
        rest = [prompt[past:-1] for prompt in prompts]
        together = self._limits.tokens
        if past:
            together = self._limits.max_suffix_tokens(past, self._graphs.num_heads) if self._graphs.shares_rows else 0
        for pack in _packs(rest, together, self._limits.padded):
            rows = [first + index for index in pack]
            parts = [rest[index] for index in pack]
            if len(pack) == 1 and (past or len(parts[0]) > together):
                self._read_row(rows[0], parts[0], run)
            elif past:
                self._read_suffixes(past, rows, parts, run)
            else:
                self._read_from_start(rows, parts, run)

    def step(self, last_ids: Ids, run: RunContext, number: int) -> tuple[Floats, Floats | None]:
        """See `Rows.step`."""
        slots, rows = self._slots, len(last_ids)
        longest = slots.longest
        slots.reserve(longest + 1)
        if self._bound != (bound := (rows, slots.memory.ctypes.data, slots.memory.shape)):
            self._bind(rows)
            self._bound = bound
        step, lengths = self._step, slots.lengths[:rows]
        step.ids[:], step.positions[:, 0], step.ends[:], step.longest[:] = last_ids, lengths, lengths, longest + 1
        with run.measure("decode", step=number, rows=rows, tokens=rows, past_length=longest):
            self._graphs.body.run_with_iobinding(self._binding)
        with run.measure("head", step=number, rows=rows, tokens=rows):
            self._head.run_with_iobinding(self._head_binding)
        lengths += 1
        scales = self._outputs.get("scales")
        return self._outputs["logits"], None if scales is None else scales[:, 0]

    def select(self, rows: Ids) -> None:
        """See `Rows.select`."""
        self._slots.select(rows)

    def _read_prefix(self, prefix: Sequence[int], run: RunContext) -> None:
        """Read a prefix into the cache, if it is not there."""
        if self._prefix == tuple(prefix):
            return
        self._prefix = ()
        self._prefix_cache.begin(len(prefix) + SHARED_ROOM)
        for start in range(0, len(prefix), self._limits.tokens):
            chunk = prefix[start : start + self._limits.tokens]
            self._read(PackedRows.after_past(start, chunk), self._prefix_cache.bind, start, run)
        self._prefix = tuple(prefix)

    def _read_suffixes(
        self, past: int, rows: Sequence[int], suffixes: Sequence[Sequence[int]], run: RunContext
    ) -> None:
        """Read tokens that follow the prefix in several rows, in one call."""
        self._read(PackedRows.sharing_past(past, suffixes), self._prefix_cache.bind, past, run)
        start = past
        for row, suffix in zip(rows, suffixes, strict=True):
            self._slots.take(self._prefix_cache, start, start + len(suffix), row)
            start += len(suffix)

    def _read_from_start(self, rows: Sequence[int], parts: Sequence[Sequence[int]], run: RunContext) -> None:
        """Read the beginnings of neighbouring rows, in one call."""
        packed = PackedRows.from_start(parts)
        self._read(packed, lambda binding: self._slots.bind(binding, rows[0], len(rows)), 0, run)
        for row, part in zip(rows, parts, strict=True):
            self._slots.lengths[row] = len(part)

    def _read_row(self, row: int, ids: Sequence[int], run: RunContext) -> None:
        """Read tokens that follow those of one row, in chunks."""
        for start in range(0, len(ids), self._limits.tokens):
            chunk, past = ids[start : start + self._limits.tokens], int(self._slots.lengths[row])
            packed = PackedRows.after_past(past, chunk)
            self._read(packed, lambda binding: self._slots.bind(binding, row, 1), past, run)
            self._slots.lengths[row] += len(chunk)

    def _read(self, rows: PackedRows, bind: Any, past: int, run: RunContext) -> None:
        run.raise_if_stopped("calls of the model")
        with run.measure("prefill", rows=len(rows.ends), tokens=rows.num_tokens, past_length=past):
            self._graphs.read_into(rows, bind)

    def _bind(self, rows: int) -> None:
        """Bind the inputs and outputs of a step of so many rows."""
        graphs, self._step = self._graphs, PackedRows.one_each(rows)
        self._binding.clear_binding_inputs()
        for name, value in graphs.feeds(self._step).items():
            bind_input(self._binding, name, value)
        self._constants = graphs.feeds(self._step)
        self._slots.bind(self._binding, 0, rows)
        hidden = self._array("hidden", (rows, graphs.sizes.width), graphs.slot_shape.dtype)
        bind_output(self._binding, "hidden", hidden)
        bind_input(self._head_binding, "hidden", hidden)
        for output in self._head.get_outputs():
            shape = rows, int(output.shape[1])
            self._outputs[output.name] = self._array(output.name, shape, np.dtype(np.float32))
            bind_output(self._head_binding, output.name, self._outputs[output.name])

    def _array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        if name not in self._buffers:
            self._buffers[name] = GrowingBuffer(dtype)
        return self._buffers[name].lay_out(shape)


class UncachedRows:
    """Rows without a cache, the slow reference of CachedRows: each step reads all tokens of every row again."""

    shares_prefixes = False
    equal_lengths = False
    buffer_stats: BufferStats = BufferStats()

    def __init__(self, graphs: NativeCausalGraphs, limits: Limits = LIMITS) -> None:
        graphs.logits_head()
        self._graphs = graphs
        self._limits = limits
        self._rows: list[list[int]] = []  # all tokens but the last

    def begin(self, rows: int, positions: int, max_positions: int) -> int:
        """See `Rows.begin`."""
        self._rows = []
        return rows

    def admit(self, prefix: Sequence[int], prompts: Sequence[Sequence[int]], run: RunContext) -> None:
        """See `Rows.admit`. Nothing is read before the next step."""
        self._rows += [list(prompt[:-1]) for prompt in prompts]

    def step(self, last_ids: Ids, run: RunContext, number: int) -> tuple[Floats, Floats | None]:
        """See `Rows.step`."""
        for row, token_id in zip(self._rows, last_ids.tolist(), strict=True):
            row.append(token_id)
        states = np.empty((len(self._rows), self._graphs.sizes.width), self._graphs.slot_shape.dtype)
        for pack in _packs(self._rows, self._limits.tokens, self._limits.padded):
            packed = PackedRows.from_start([self._rows[row] for row in pack])
            run.raise_if_stopped("calls of the model")
            with run.measure("decode", step=number, rows=len(pack), tokens=packed.num_tokens):
                hidden = self._graphs.read_from_start(packed)
            states[pack] = hidden[np.cumsum([len(self._rows[row]) for row in pack]) - 1]
        with run.measure("head", step=number, rows=len(self._rows), tokens=len(self._rows)):
            return self._graphs.logits(states)

    def select(self, rows: Ids) -> None:
        """See `Rows.select`."""
        self._rows = [self._rows[row] for row in rows.tolist()]


def _packs(parts: Sequence[Sequence[int]], max_tokens: int, max_padded: int) -> Iterator[list[int]]:
    """Indices of neighbouring parts, longest first, that fit into one call; a longer one is alone, an empty one in
    none."""
    pack: list[int] = []
    tokens = 0
    for index, part in enumerate(parts):
        if not part:
            continue
        padded = max(len(parts[one]) for one in (*pack, index)) * (len(pack) + 1)
        if pack and (tokens + len(part) > max_tokens or padded > max_padded or index != pack[-1] + 1):
            yield pack
            pack, tokens = [], 0
        pack.append(index)
        tokens += len(part)
    if pack:
        yield pack
