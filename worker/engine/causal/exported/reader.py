"""
Log-probabilities of sequences from an exported causal graph, for one lane.

Sequences of about one length are rows of one call, as far as the graph allows it (`capabilities.py`). A shared prefix
is computed once, as the past of its suffixes. Long sequences are read in pieces that extend the cache. Such graphs give
whole logits, V numbers per token, so a call has only as many tokens as their logits fit into memory.

Knows: which sequences go together. Does not know: inputs of graphs, text.

Shapes: B rows · S length of the longest row · P past length · V vocabulary.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.exported.broadcast_past import BroadcastPast, Past
from worker.engine.causal.exported.capabilities import Capabilities
from worker.engine.causal.exported.graph import ExportedCausalGraph
from worker.engine.causal.protocol import Group, GroupResults, LogProbs
from worker.engine.causal.target_log_probs import scratch_size, target_log_probs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext

MAX_TOKENS = 512  # of a call: a lane that is to stop finishes one
MAX_BYTES = 128 << 20  # of a call's logits, of one layer's attention weights, of the pasts of its rows: each
MIN_PIECE = 16  # tokens: a piece is not halved below
_MAX_PADDING = 1 / 8  # of the tokens of a batch
_MIN_SAVED = 32  # tokens that sharing a prefix has to save, to be worth its calls


@dataclass(frozen=True, slots=True)
class _SuffixSequence:
    """A sequence that is read from its beginning, or after a past."""

    group: int
    suffix: int  # its index in the group
    ids: Sequence[int]  # the model reads ids[:-1] and predicts ids[1:], the targets
    num_unscored: int  # targets at the beginning whose log-probabilities are not needed

    @property
    def length(self) -> int:
        """The number of tokens that the model reads."""
        return len(self.ids) - 1


class ExportedReader:
    """One lane's reader. Between two calls of `read` its buffers keep their memory, not their content."""

    def __init__(
        self,
        graph: ExportedCausalGraph,
        capabilities: Capabilities,
        num_heads: int,
        *,
        is_packed: bool,
        in_pieces: bool = True,
    ) -> None:
        """`num_heads`: of queries, to estimate the memory of attention. `is_packed=False`: one sequence after another,
        without shared prefixes. `in_pieces=False`: each sequence in one call, however much memory that takes."""
        self._graph = graph
        self._capabilities = capabilities
        self._num_heads = num_heads
        self._is_packed = is_packed
        self._in_pieces = in_pieces and capabilities.extends
        self._vocab_size = graph.layout.vocab_size
        self._max_tokens = MAX_TOKENS  # fewer after a call has run out of memory
        self._shared_past = BroadcastPast()
        self._scratch: NDArray[np.float32] | None = None

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of shared pasts, and the scratch memory for log-probabilities."""
        scratch = self._scratch
        return self._shared_past.buffer_stats + (BufferStats() if scratch is None else BufferStats(scratch.nbytes, 1))

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        shared = [index for index, group in enumerate(groups) if self._is_worth_sharing(group)]
        others = sorted(set(range(len(groups))) - set(shared))
        results = GroupResults(groups)
        whole = chain.from_iterable(_whole_sequences(index, groups[index]) for index in others)
        for sequence, log_probs in self._read_sequences(list(whole), (), run):
            if (done := results.add(sequence.group, sequence.suffix, log_probs)) is not None:
                yield sequence.group, done
        for index in shared:
            yield index, self._read_shared(groups[index], run)

    def _is_worth_sharing(self, group: Group) -> bool:
        """Whether to compute the group's prefix once, as the past of its suffixes."""
        length, count = len(group.prefix) - 1, len(group.suffixes)
        if not self._is_packed or not self._capabilities.extends or count == 1:
            return False
        return length * (count - 1) >= _MIN_SAVED if self._capabilities.extends_batches else length >= _MIN_SAVED

    def _read_shared(self, group: Group, run: RunContext) -> list[LogProbs]:
        """All tokens of the prefix but the last become the past. The last is read with each suffix, because it predicts
        the suffix's first token."""
        *beginning, last = group.prefix
        _, past = self._read_in_pieces(beginning, len(beginning), (), run, wants_present=True)
        self._shared_past.repeat(past)
        try:
            sequences = [
                _SuffixSequence(0, index, [last, *suffix], group.num_given(index))
                for index, suffix in enumerate(group.suffixes)
            ]
            by_suffix = {
                sequence.suffix: log_probs for sequence, log_probs in self._read_sequences(sequences, past, run)
            }
        finally:
            self._shared_past.end()
        return [by_suffix[index] for index in range(len(sequences))]

    def _read_sequences(
        self, sequences: Sequence[_SuffixSequence], past: Past, run: RunContext
    ) -> Iterator[tuple[_SuffixSequence, LogProbs]]:
        """Yield each sequence with its log-probabilities, longest first; all follow the same past."""
        # Nothing predicts the only token of a sequence without context.
        yield from ((alone, np.empty(0, np.float32)) for alone in sequences if not alone.length)
        longest_first = sorted(sequences, key=lambda sequence: -sequence.length)
        waiting = deque(sequence for sequence in longest_first if sequence.length)
        max_rows = len(sequences)
        while waiting:
            batch = self._take_batch(waiting, past, max_rows)
            with halve_on_out_of_memory(len(batch), "sequences") as attempt:
                yield from zip(batch, self._read_batch(batch, past, run), strict=True)
            if not attempt.fits:
                max_rows = attempt.half
                waiting.extendleft(reversed(batch))

    def _take_batch(self, waiting: deque[_SuffixSequence], past: Past, max_rows: int) -> list[_SuffixSequence]:
        """Remove the sequences of the next call from the front of `waiting`: as many as fit into memory."""
        batch = [waiting.popleft()]
        length, capabilities = batch[0].length, self._capabilities
        if not self._is_packed or not (capabilities.extends_batches if past else capabilities.batches):
            return batch
        max_rows = min(max_rows, self._max_rows(length, past))
        tokens = length
        while waiting and len(batch) < max_rows:
            next_length = waiting[0].length
            padded = (len(batch) + 1) * length
            may_pad = capabilities.pads and padded - tokens - next_length <= _MAX_PADDING * padded
            if next_length < length and not may_pad:
                break
            tokens += next_length
            batch.append(waiting.popleft())
        return batch

    def _max_rows(self, length: int, past: Past) -> int:
        """The most rows of `length` tokens for one call, bounded by its tokens and by MAX_BYTES of logits, of attention
        weights and of pasts."""
        past_length = _length(past)
        cache = self._graph.layout.cache
        return min(
            self._max_tokens // length,
            MAX_BYTES // (4 * length * self._vocab_size),
            MAX_BYTES // (4 * length * (past_length + length) * self._num_heads),
            MAX_BYTES // (cache.position_bytes * past_length) if cache and past else self._max_tokens,
        )

    def _max_piece(self, past_length: int) -> int:
        """The most tokens of one sequence, after `past_length` others, that a call may have."""
        return max(
            MIN_PIECE,
            min(
                self._max_tokens,
                MAX_BYTES // (4 * self._vocab_size),
                MAX_BYTES // (4 * (past_length + self._max_tokens) * self._num_heads),
            ),
        )

    def _read_batch(self, batch: Sequence[_SuffixSequence], past: Past, run: RunContext) -> list[LogProbs]:
        if len(batch) == 1:
            (sequence,) = batch
            return [self._read_in_pieces(sequence.ids, sequence.num_unscored, past, run)[0]]
        rows = [sequence.ids[:-1] for sequence in batch]
        logits, _ = self._call(rows, self._shared_past.rows(len(rows)) if past else (), run)
        num_scored = sum(sequence.length - sequence.num_unscored for sequence in batch)
        with run.measure("head", rows=len(rows), tokens=num_scored):
            return [
                self._log_probs(
                    logits[row, sequence.num_unscored : sequence.length], sequence.ids[sequence.num_unscored + 1 :]
                )
                for row, sequence in enumerate(batch)
            ]

    def _read_in_pieces(
        self, ids: Sequence[int], num_unscored: int, past: Past, run: RunContext, *, wants_present: bool = False
    ) -> tuple[LogProbs, Past]:
        """Read one sequence after `past`, in as many calls as memory requires. Returns the log-probabilities of its
        targets without the first `num_unscored`, and the keys and values.

        With `wants_present` the ids are a prefix: all of them are fed, and the keys and values cover all.
        """
        end = len(ids) if wants_present else len(ids) - 1
        log_probs = np.empty(end - num_unscored, np.float32)
        start = 0
        while start < end:
            size = end - start
            if self._in_pieces:
                size = min(size, self._max_piece(_length(past)))
            stop = start + size
            first = max(num_unscored, start)
            with halve_on_out_of_memory(size, "tokens", least=MIN_PIECE if self._in_pieces else size) as attempt:
                logits, present = self._call(
                    [ids[start:stop]],
                    past,
                    run,
                    wants_logits=first < stop,
                    wants_present=wants_present or stop < end,
                )
            if not attempt.fits:
                self._max_tokens = attempt.half
                continue
            if first < stop:
                with run.measure("head", rows=1, tokens=stop - first):
                    log_probs[first - num_unscored : stop - num_unscored] = self._log_probs(
                        logits[0, first - start :], ids[first + 1 : stop + 1]
                    )
            past, start = present, stop
        return log_probs, past

    def _call(
        self,
        rows: Sequence[Sequence[int]],
        past: Past,
        run: RunContext,
        *,
        wants_logits: bool = True,
        wants_present: bool = False,
    ) -> tuple[NDArray[np.floating], Past]:
        run.raise_if_stopped("calls of the model")
        tokens = len(rows) * max(map(len, rows))
        with run.measure("prefill", rows=len(rows), tokens=tokens, past_length=_length(past)):
            return self._graph.call(rows, past, wants_logits=wants_logits, wants_present=wants_present)

    def _log_probs(self, logits: NDArray[np.floating], targets: Sequence[int]) -> LogProbs:
        if self._scratch is None:
            self._scratch = np.empty(scratch_size(self._vocab_size), np.float32)
        return target_log_probs(logits, np.asarray(targets, np.int64), self._scratch)


def _whole_sequences(index: int, group: Group) -> Iterator[_SuffixSequence]:
    """Each sequence of a group from its beginning."""
    for suffix, ids in enumerate(group.suffixes):
        yield _SuffixSequence(
            index, suffix, [*group.prefix, *ids], max(len(group.prefix) + group.num_given(suffix) - 1, 0)
        )


def _length(past: Past) -> int:
    return past[0].shape[2] if past else 0
