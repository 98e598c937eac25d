"""
The rows of one lane that continue prompts with llama.cpp: a sequence of its memory per row, and one for the prefix that
prompts share, whose cells become the beginning of each row's sequence.

Knows: calls, their order, and how much memory they may take. Does not know: how a token is chosen.

Shapes: R rows · V vocabulary.
"""

from collections.abc import Iterator, Sequence

from worker.engine.causal.llamacpp.context import ContextLimits, LlamaContext, TokenSpan
from worker.engine.causal.llamacpp.network import Network
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Floats, Ids

MAX_CELL_BYTES = 2 << 30  # of one lane's keys and values


class LlamaCppRows:
    """Rows of a GGUF model: each is a sequence in the memory of one llama.cpp context."""

    equal_lengths = False

    def __init__(self, network: Network, *, threads: int, limits: ContextLimits, bytes_per_cell: int) -> None:
        self.shares_prefixes = limits.is_packed
        self._network = network
        self._threads = threads
        self._limits = limits
        self._bytes_per_cell = bytes_per_cell
        self._context: LlamaContext | None = None
        self._rows: list[int] = []  # the sequence of each row
        self._lengths: list[int] = []  # tokens that each row has read
        self._free: list[int] = []  # sequences
        self._prefix: tuple[int, ...] = ()  # the tokens of the sequence with the highest number
        self._num_rows = 0
        self.buffer_stats = BufferStats()

    def allocate(self, rows: int, positions: int, max_positions: int) -> int:
        """As `Rows.allocate`. A context cannot grow, so it gets room for `max_positions` tokens in every row now."""
        most = MAX_CELL_BYTES // max(1, self._bytes_per_cell * max_positions)
        # One sequence more than there are rows holds the prefix.
        rows = max(1, min(rows, most - 1, self._limits.sequences(self._limits.tokens) - 1))
        sequences = rows + 1 if self.shares_prefixes else 1
        size = self._limits.context_size(
            self._network, sequences * max_positions, max(self._limits.tokens, sequences), sequences
        )
        if self._context is None or self._context.size != size:
            self._context = None  # freed first
            self._context = LlamaContext(self._network, size, self._threads)
            num_bytes = size.cells * self._bytes_per_cell + size.tokens * self._network.vocab_size * 4
            self.buffer_stats = self.buffer_stats.freed() + BufferStats(num_bytes, allocations=1)
        else:
            self.buffer_stats += BufferStats(reuses=1)
        self._context.clear()
        self._rows, self._lengths, self._prefix = [], [], ()
        self._free, self._num_rows = list(range(rows)), rows
        return rows

    def read_in(self, prefix: Sequence[int], prompts: Sequence[Sequence[int]], run: RunContext) -> None:
        context, past = self._opened, len(prefix)
        rows = [self._free.pop(0) for _ in prompts]
        if past:
            self._read_prefix(prefix, run)
            for row in rows:
                context.share(self._num_rows, range(row, row + 1))
        pieces = [
            TokenSpan(row, past, prompt[past:-1], len(prompt) - 1 - past)
            for row, prompt in zip(rows, prompts, strict=True)
        ]
        for call in self._calls([piece for piece in pieces if piece.ids]):
            self._read(call, "prefill", 0, run)
        self._rows += rows
        self._lengths += [len(prompt) - 1 for prompt in prompts]

    def step(self, last_ids: Ids, run: RunContext, number: int) -> tuple[Floats, Floats | None]:
        pieces = [
            TokenSpan(row, length, [token_id], 0)
            for row, length, token_id in zip(self._rows, self._lengths, last_ids.tolist(), strict=True)
        ]
        self._read(pieces, "decode", number, run)
        self._lengths = [length + 1 for length in self._lengths]
        return self._opened.logits(), None

    def select(self, rows: Ids) -> None:
        kept = [self._rows[row] for row in rows.tolist()]
        for row in set(self._rows) - set(kept):
            self._opened.forget(range(row, row + 1))
            self._free.append(row)
        self._rows, self._lengths = kept, [self._lengths[row] for row in rows.tolist()]

    @property
    def _opened(self) -> LlamaContext:
        assert self._context is not None  # `allocate` comes first
        return self._context

    def _read_prefix(self, prefix: Sequence[int], run: RunContext) -> None:
        """Read `prefix` into the prefix's sequence, unless it is there already."""
        if self._prefix == tuple(prefix):
            return
        self._opened.forget(range(self._num_rows, self._num_rows + 1))
        self._prefix = ()
        for call in self._calls([TokenSpan(self._num_rows, 0, prefix, len(prefix))]):
            self._read(call, "prefill", 0, run)
        self._prefix = tuple(prefix)

    def _calls(self, pieces: Sequence[TokenSpan]) -> Iterator[list[TokenSpan]]:
        """Cut the pieces into calls of at most as many tokens as a call may have. None asks for logits."""
        call: list[TokenSpan] = []
        room = self._opened.size.tokens
        for piece in pieces:
            start = 0
            while start < len(piece.ids):
                ids = piece.ids[start : start + room]
                call.append(TokenSpan(piece.sequence, piece.start + start, ids, len(ids)))
                start, room = start + len(ids), room - len(ids)
                if not room:
                    yield call
                    call, room = [], self._opened.size.tokens
        if call:
            yield call

    def _read(self, pieces: Sequence[TokenSpan], phase: str, number: int, run: RunContext) -> None:
        run.raise_if_stopped("calls of the model")
        tokens, past = sum(len(piece.ids) for piece in pieces), max(piece.start for piece in pieces)
        with run.measure(phase, step=number, rows=len(pieces), tokens=tokens, past_length=past):
            self._opened.read(pieces)
