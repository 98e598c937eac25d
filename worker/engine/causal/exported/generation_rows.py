"""
The rows of one lane that continue prompts with an exported graph, used as far as the graph allows it.

    keys and values        one array per input, of all rows; the graph returns them with one position more
    rows of many lengths   padded on the left, where the graph ignores masked positions of the past (`capabilities.py`);
                           else only prompts of one length run together
    a graph without cache  reads the whole prefix of every row at each step

Knows: which prompts are read together. Does not know: inputs of graphs, how a token is chosen.

Shapes: R rows · P past length · K key/value heads · H head size · V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.exported.broadcast_past import Past, padded_pasts
from worker.engine.causal.exported.capabilities import Capabilities
from worker.engine.causal.exported.graph import ExportedCausalGraph
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Floats, Ids

MAX_TOKENS = 512  # of a call that reads prompts: a lane that is to stop finishes one
MAX_BYTES = 1 << 30  # of keys and values of all rows; a step has them twice


class ExportedRows:
    """Rows of an exported graph with a cache: each step feeds one id a row and the past of all rows."""

    def __init__(self, graph: ExportedCausalGraph, capabilities: Capabilities) -> None:
        """`graph` takes and returns keys and values."""
        assert graph.layout.cache is not None
        self.equal_lengths = not capabilities.skips_padding
        self.shares_prefixes = capabilities.extends
        self._graph = graph
        self._cache = graph.layout.cache
        self._capabilities = capabilities
        self._past: Past = ()  # (R, K, P, H) each; a row's positions are the last ones
        self._lengths = np.empty(0, np.int64)  # (R,): positions of each row
        self._prefix: tuple[int, ...] = ()
        self._prefix_past: Past = ()  # (1, K, P, H)

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of keys and values, which each step allocates again."""
        return BufferStats(sum(array.nbytes for array in (*self._past, *self._prefix_past)))

    def allocate(self, rows: int, positions: int, max_positions: int) -> int:
        self._past, self._lengths = (), np.empty(0, np.int64)
        if not self._capabilities.steps:
            return 1
        return max(1, min(rows, MAX_BYTES // (self._cache.position_bytes * max_positions)))

    def read_in(self, prefix: Sequence[int], prompts: Sequence[Sequence[int]], run: RunContext) -> None:
        past: Past = ()
        if prefix:
            self._read_prefix(prefix, run)
            past = self._prefix_past
        for part in self._together([prompt[len(prefix) : -1] for prompt in prompts], bool(prefix)):
            self._add(self._read(part, past, run), np.array([len(prefix) + len(ids) for ids in part]))

    def step(self, last_ids: Ids, run: RunContext, number: int) -> tuple[Floats, Floats | None]:
        run.raise_if_stopped("calls of the model")
        rows = len(last_ids)
        with run.measure("decode", step=number, rows=rows, tokens=rows, past_length=self._length):
            logits, self._past = self._graph.step(last_ids, self._past, self._lengths)
        self._lengths = self._lengths + 1
        return np.asarray(logits, np.float32), None

    def select(self, rows: Ids) -> None:
        """As `Rows.select`; positions of the past that only dropped rows had are cut off."""
        self._lengths = self._lengths[rows]
        longest = int(self._lengths.max(initial=0))
        self._past = [np.ascontiguousarray(array[rows][:, :, self._length - longest :]) for array in self._past]

    @property
    def _length(self) -> int:
        """P, the positions of the past, padding included."""
        return self._past[0].shape[2] if len(self._past) else 0

    def _read_prefix(self, prefix: Sequence[int], run: RunContext) -> None:
        if self._prefix == tuple(prefix):
            return
        self._prefix_past = self._read([prefix], (), run)
        self._prefix = tuple(prefix)

    def _together(self, parts: Sequence[Sequence[int]], after_prefix: bool) -> list[list[Sequence[int]]]:
        """Divide prompts into runs of neighbours that the graph can read in one call."""
        capabilities = self._capabilities
        may_batch = capabilities.extends_batches if after_prefix else capabilities.batches
        calls: list[list[Sequence[int]]] = []
        for ids in parts:
            call = calls[-1] if calls else []
            longest = len(call[0]) if call else 0
            is_same = len(ids) == longest or (capabilities.pads and len(ids) > 0)
            if may_batch and call and is_same and (len(call) + 1) * longest <= MAX_TOKENS:
                call.append(ids)
            else:
                calls.append([ids])
        return calls

    def _read(self, parts: Sequence[Sequence[int]], past: Past, run: RunContext) -> Past:
        """Read rows of tokens, the longest first, each after the same past (1, K, P, H), or from the start. Returns the
        keys and values (B, K, P + S, H), padded on the right."""
        past = [np.repeat(array, len(parts), axis=0) for array in past]
        if not parts[0]:
            shape = len(parts), self._cache.num_heads, 0
            return past or [np.empty((*shape, size), self._cache.dtype) for size in self._cache.sizes]
        size = MAX_TOKENS if self._capabilities.extends and len(parts) == 1 else len(parts[0])
        for start in range(0, len(parts[0]), size):
            run.raise_if_stopped("calls of the model")
            chunk = [ids[start : start + size] for ids in parts]
            length = past[0].shape[2] if past else 0
            with run.measure("prefill", rows=len(chunk), tokens=len(chunk) * len(chunk[0]), past_length=length):
                _, past = self._graph.call(chunk, past, wants_logits=False, wants_present=True)
        return past

    def _add(self, new: Past, lengths: NDArray[np.int64]) -> None:
        """Append rows (B, K, S, H), of which the first `lengths` (B,) positions count, and pad all rows on the left."""
        own = [[array[row : row + 1] for array in new] for row in range(len(lengths))]
        # A running row is copied whole, its masked positions too.
        running = [[array[row : row + 1] for array in self._past] for row in range(len(self._lengths))]
        kept = np.full(len(running), self._length)
        self._past = padded_pasts([*running, *own], np.concatenate((kept, lengths)))
        self._lengths = np.concatenate((self._lengths, lengths))


class WholeRows:
    """Rows of an exported graph without a cache, or with `--cache off`: each step reads all tokens of every row."""

    shares_prefixes = False
    buffer_stats: BufferStats = BufferStats()

    def __init__(self, graph: ExportedCausalGraph, capabilities: Capabilities) -> None:
        self.equal_lengths = not capabilities.pads
        self._graph = graph
        self._capabilities = capabilities
        self._rows: list[list[int]] = []  # all tokens but the last

    def allocate(self, rows: int, positions: int, max_positions: int) -> int:
        """As `Rows.allocate`. The graph computes the logits of all positions, so their memory bounds the rows."""
        self._rows = []
        if not self._capabilities.batches:
            return 1
        return max(1, min(rows, MAX_BYTES // (4 * self._graph.layout.vocab_size * max_positions)))

    def read_in(self, prefix: Sequence[int], prompts: Sequence[Sequence[int]], run: RunContext) -> None:
        """As `Rows.read_in`, but only remember the tokens: every step reads all of them."""
        self._rows += [list(prompt[:-1]) for prompt in prompts]

    def step(self, last_ids: Ids, run: RunContext, number: int) -> tuple[Floats, Floats | None]:
        run.raise_if_stopped("calls of the model")
        for row, token_id in zip(self._rows, last_ids.tolist(), strict=True):
            row.append(token_id)
        lengths = np.array([len(row) for row in self._rows])
        with run.measure("decode", step=number, rows=len(self._rows), tokens=int(lengths.sum())):
            logits, _ = self._graph.call(self._rows)
        return np.asarray(logits[np.arange(len(lengths)), lengths - 1], np.float32), None

    def select(self, rows: Ids) -> None:
        self._rows = [self._rows[row] for row in rows.tolist()]
