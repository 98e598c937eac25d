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

import numpy as np

from worker.engine.causal.native.calls import LIMITS, CallLimits
from worker.engine.causal.native.graphs import NativeCausalGraphs
from worker.engine.causal.native.lane_body import BodyCall
from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Floats, Ids
from worker.graphs.causal.attention import SHARED_ROOM

# Of keys and values of one lane: 32 rows of 1,000 positions in a model of Qwen2.5-0.5B's sizes take 0.8 GB.
MAX_SLOT_BYTES = 2 << 30


class CachedRows:
    """Rows of native graphs with a cache: each row has a slot for its keys and values."""

    shares_prefixes = True
    equal_lengths = False

    def __init__(self, graphs: NativeCausalGraphs, limits: CallLimits = LIMITS) -> None:
        self._graphs = graphs
        self._limits = limits
        self._body, self._head = graphs.new_body(), graphs.new_logits_head()
        self._prefix: tuple[int, ...] = ()  # the sequence in the body

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of slots, of the cached prefix, and of a step's outputs."""
        return self._body.buffer_stats + self._head.buffer_stats

    def allocate(self, rows: int, positions: int, max_positions: int) -> int:
        most = MAX_SLOT_BYTES // (self._graphs.slot_shape.position_bytes * max_positions)
        rows = max(1, min(rows, most))
        self._body.begin_slots(rows, positions)
        return rows

    def read_in(self, prefix: Sequence[int], prompts: Sequence[Sequence[int]], run: RunContext) -> None:
        first, past, body = self._body.num_rows, len(prefix), self._body
        body.reserve(max(len(prompt) for prompt in prompts))
        body.add_rows(len(prompts))
        if past:
            self._read_prefix(prefix, run)
            body.take(range(first, first + len(prompts)), [0] * len(prompts), [past] * len(prompts))
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
        hidden = self._body.step(last_ids, BodyCall(run, "decode", number, self._body.longest))
        with run.measure("head", step=number, rows=len(last_ids), tokens=len(last_ids)):
            return self._head.logits(hidden)

    def select(self, rows: Ids) -> None:
        self._body.select(rows)

    def _read_prefix(self, prefix: Sequence[int], run: RunContext) -> None:
        """Read `prefix` into the body's sequence cache, unless it is there already."""
        if self._prefix == tuple(prefix):
            return
        self._prefix = ()
        self._body.begin_sequence(len(prefix) + SHARED_ROOM)
        for start in range(0, len(prefix), self._limits.tokens):
            chunk = prefix[start : start + self._limits.tokens]
            self._body.read_sequence(PackedRows.after_past(start, chunk), self._call(start, run))
        self._prefix = tuple(prefix)

    def _read_suffixes(
        self, past: int, rows: Sequence[int], suffixes: Sequence[Sequence[int]], run: RunContext
    ) -> None:
        """Append tokens after the prefix to several rows, in one call."""
        self._body.read_sequence(PackedRows.sharing_past(past, suffixes), self._call(past, run))
        lengths = [len(suffix) for suffix in suffixes]
        self._body.take(rows, (past + np.cumsum([0, *lengths[:-1]])).tolist(), lengths)

    def _read_from_start(self, rows: Sequence[int], parts: Sequence[Sequence[int]], run: RunContext) -> None:
        """Read the beginnings of neighbouring rows, in one call."""
        self._body.read_slots(PackedRows.from_start(parts), rows[0], self._call(0, run))

    def _read_row(self, row: int, ids: Sequence[int], run: RunContext) -> None:
        """Append tokens to one row, in chunks that fit into a call."""
        for start in range(0, len(ids), self._limits.tokens):
            chunk, past = ids[start : start + self._limits.tokens], int(self._body.lengths[row])
            self._body.read_slots(PackedRows.after_past(past, chunk), row, self._call(past, run))

    def _call(self, past: int, run: RunContext) -> BodyCall:
        run.raise_if_stopped("calls of the model")
        return BodyCall(run, past=past)


class UncachedRows:
    """Rows without a cache, the slow reference of CachedRows: each step reads all tokens of every row again."""

    shares_prefixes = False
    equal_lengths = False
    buffer_stats: BufferStats = BufferStats()

    def __init__(self, graphs: NativeCausalGraphs, limits: CallLimits = LIMITS) -> None:
        self._width, self._dtype = graphs.sizes.width, graphs.slot_shape.dtype
        self._body, self._head = graphs.new_body(), graphs.new_logits_head()
        self._limits = limits
        self._rows: list[list[int]] = []  # all tokens but the last

    def allocate(self, rows: int, positions: int, max_positions: int) -> int:
        self._rows = []
        return rows

    def read_in(self, prefix: Sequence[int], prompts: Sequence[Sequence[int]], run: RunContext) -> None:
        """As `Rows.read_in`, but only remember the tokens: every step reads all of them."""
        self._rows += [list(prompt[:-1]) for prompt in prompts]

    def step(self, last_ids: Ids, run: RunContext, number: int) -> tuple[Floats, Floats | None]:
        for row, token_id in zip(self._rows, last_ids.tolist(), strict=True):
            row.append(token_id)
        states = np.empty((len(self._rows), self._width), self._dtype)
        for pack in _packs(self._rows, self._limits.tokens, self._limits.padded):
            packed = PackedRows.from_start([self._rows[row] for row in pack])
            run.raise_if_stopped("calls of the model")
            hidden = self._body.read_from_start(packed, BodyCall(run, "decode", number))
            states[pack] = hidden[np.cumsum([len(self._rows[row]) for row in pack]) - 1]
        with run.measure("head", step=number, rows=len(self._rows), tokens=len(self._rows)):
            return self._head.logits(states)

    def select(self, rows: Ids) -> None:
        self._rows = [self._rows[row] for row in rows.tolist()]


def _packs(parts: Sequence[Sequence[int]], max_tokens: int, max_padded: int) -> Iterator[list[int]]:
    """Divide token sequences, longest first, into packs of neighbours that fit into one call, and yield their indices.
    A sequence too long for a call is alone; an empty one is in no pack."""
    pack: list[int] = []
    tokens = 0
    for index, part in enumerate(parts):
        if not part:
            continue
        padded = max(len(parts[member]) for member in (*pack, index)) * (len(pack) + 1)
        if pack and (tokens + len(part) > max_tokens or padded > max_padded or index != pack[-1] + 1):
            yield pack
            pack, tokens = [], 0
        pack.append(index)
        tokens += len(part)
    if pack:
        yield pack
