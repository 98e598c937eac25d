"""
Log-probabilities of sequences from a causal graph as others exported it: one lane's way through the model.

Sequences of about one length are rows of one call, as far as the graph takes them so
(`worker.engine.causal.capabilities`). What several of them begin with is computed once, and is their past. Long ones go
through in pieces that extend the cache. Logits come back whole from such graphs, V floats a token: a call has so few
tokens that they fit.

Knows: which sequences go together. Does not know: inputs of graphs, text.

Shapes: B rows · S length of the longest row · P past length · V vocabulary.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.broadcast_past import BroadcastPast, Past
from worker.engine.causal.capabilities import Capabilities
from worker.engine.causal.exported_graph import ExportedCausalGraph
from worker.engine.causal.group_results import GroupResults
from worker.engine.causal.protocol import Group, LogProbs
from worker.engine.causal.target_log_probs import scratch_size, target_log_probs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext

MAX_TOKENS = 512  # of a call: whoever stops a lane waits for one
MAX_BYTES = 128 << 20  # of a call's logits, of one layer's attention weights, of the pasts of its rows: each
_LEAST = 16  # tokens of a piece: where even these do not fit into memory, nothing does
_MAX_PADDING = 1 / 8  # of the tokens of a batch
_WORTH = 32  # tokens that sharing a prefix has to save, for the calls that it costs


@dataclass(frozen=True, slots=True)
class _Line:
    """A sequence behind a past, or from its beginning."""

    group: int
    suffix: int  # its place in the group
    ids: Sequence[int]  # each but the last is fed, each but the first is a target
    skip: int  # targets at the beginning that are not asked for

    @property
    def length(self) -> int:
        """Tokens that are fed."""
        return len(self.ids) - 1


class ExportedReader:
    """A lane's buffers. Nothing is kept from one `read` to the next but memory."""

    def __init__(
        self,
        graph: ExportedCausalGraph,
        capabilities: Capabilities,
        num_heads: int,
        *,
        is_packed: bool,
        is_cut: bool = True,
    ) -> None:
        """`num_heads`: of queries, for an estimate of what attention takes. `is_packed=False`: one sequence after
        another, and no prefix is shared. `is_cut=False`: each in one call, however much memory that takes."""
        self._graph = graph
        self._capabilities = capabilities
        self._num_heads = num_heads
        self._is_packed = is_packed
        self._is_cut = is_cut and capabilities.extends
        self._vocab_size = graph.layout.vocab_size
        self._max_tokens = MAX_TOKENS  # fewer once memory was short
        self._repeated = BroadcastPast()
        self._scratch: NDArray[np.float32] | None = None

    @property
    def buffer_stats(self) -> BufferStats:
        """Of repeated pasts and of what log-probabilities are computed in."""
        scratch = self._scratch
        return self._repeated.buffer_stats + (BufferStats() if scratch is None else BufferStats(scratch.nbytes, 1))

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        """See `worker.engine.causal.protocol.Reader.read`."""
        shared = [index for index, group in enumerate(groups) if self._shares(group)]
        others = sorted(set(range(len(groups))) - set(shared))
        results = GroupResults(groups)
        whole = chain.from_iterable(_whole(index, groups[index]) for index in others)
        for line, log_probs in self._read_lines(list(whole), (), run):
            if (done := results.add(line.group, line.suffix, log_probs)) is not None:
                yield line.group, done
        for index in shared:
            yield index, self._read_shared(groups[index], run)

    def _shares(self, group: Group) -> bool:
        """Whether the group's prefix is computed once, to be the past of its suffixes."""
        length, count = len(group.prefix) - 1, len(group.suffixes)
        if not self._is_packed or not self._capabilities.extends or count == 1:
            return False
        return length * (count - 1) >= _WORTH if self._capabilities.extends_batches else length >= _WORTH

    def _read_shared(self, group: Group, run: RunContext) -> list[LogProbs]:
        """All but the last token of the prefix are the past; the last one is fed with each suffix, whose first token
        it foretells."""
        *beginning, last = group.prefix
        _, past = self._walk(beginning, len(beginning), (), run, wants_present=True)
        self._repeated.begin(past)
        try:
            lines = [_Line(0, place, [last, *suffix], 0) for place, suffix in enumerate(group.suffixes)]
            found = {line.suffix: log_probs for line, log_probs in self._read_lines(lines, past, run)}
        finally:
            self._repeated.end()
        return [found[place] for place in range(len(lines))]

    def _read_lines(self, lines: Sequence[_Line], past: Past, run: RunContext) -> Iterator[tuple[_Line, LogProbs]]:
        """Every line once, longest first, behind one past."""
        yield from ((line, np.empty(0, np.float32)) for line in lines if not line.length)  # nothing foretells its token
        waiting = deque(sorted(filter(lambda line: line.length, lines), key=lambda line: -line.length))
        most = len(lines)
        while waiting:
            batch = self._take(waiting, past, most)
            with halve_on_out_of_memory(len(batch), "sequences") as attempt:
                yield from zip(batch, self._read_batch(batch, past, run), strict=True)
            if not attempt.fits:
                most = attempt.half
                waiting.extendleft(reversed(batch))

    def _take(self, waiting: deque[_Line], past: Past, most: int) -> list[_Line]:
        """The next rows of one call, from the front of `waiting`."""
        batch = [waiting.popleft()]
        length, able = batch[0].length, self._capabilities
        if not self._is_packed or not (able.extends_batches if past else able.batches):
            return batch
        most = min(most, self._most_rows(length, past))
        tokens = length
        while waiting and len(batch) < most:
            following = waiting[0].length
            padded = (len(batch) + 1) * length
            if following < length and not (able.pads and padded - tokens - following <= _MAX_PADDING * padded):
                break
            tokens += following
            batch.append(waiting.popleft())
        return batch

    def _most_rows(self, length: int, past: Past) -> int:
        """How many sequences that feed so many tokens a call may have."""
        past_length = _length(past)
        cache = self._graph.layout.cache
        return min(
            self._max_tokens // length,
            MAX_BYTES // (4 * length * self._vocab_size),
            MAX_BYTES // (4 * length * (past_length + length) * self._num_heads),
            MAX_BYTES // (cache.position_bytes * past_length) if cache and past else self._max_tokens,
        )

    def _most_tokens(self, past_length: int) -> int:
        """How many tokens of one sequence a call may have."""
        return max(
            _LEAST,
            min(
                self._max_tokens,
                MAX_BYTES // (4 * self._vocab_size),
                MAX_BYTES // (4 * (past_length + self._max_tokens) * self._num_heads),
            ),
        )

    def _read_batch(self, batch: Sequence[_Line], past: Past, run: RunContext) -> list[LogProbs]:
        if len(batch) == 1:
            (line,) = batch
            return [self._walk(line.ids, line.skip, past, run)[0]]
        rows = [line.ids[:-1] for line in batch]
        logits, _ = self._call(rows, self._repeated.rows(len(rows)) if past else (), run)
        with run.measure("head", rows=len(rows), tokens=sum(line.length - line.skip for line in batch)):
            return [
                self._log_probs(logits[row, line.skip : line.length], line.ids[line.skip + 1 :])
                for row, line in enumerate(batch)
            ]

    def _walk(
        self, ids: Sequence[int], skip: int, past: Past, run: RunContext, *, wants_present: bool = False
    ) -> tuple[LogProbs, Past]:
        """One sequence, in as many pieces as it takes; the log-probabilities of its targets but the first `skip`.

        With `wants_present`, all ids are fed, and the keys and values of all of them come back: a prefix has no target.
        """
        end = len(ids) if wants_present else len(ids) - 1
        found = np.empty(end - skip, np.float32)
        at = 0
        while at < end:
            size = end - at
            if self._is_cut:
                size = min(size, self._most_tokens(_length(past)))
            stop = at + size
            first = max(skip, at)
            with halve_on_out_of_memory(size, "tokens", least=_LEAST if self._is_cut else size) as attempt:
                logits, present = self._call(
                    [ids[at:stop]],
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
                    found[first - skip : stop - skip] = self._log_probs(
                        logits[0, first - at :], ids[first + 1 : stop + 1]
                    )
            past, at = present, stop
        return found, past

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


def _whole(index: int, group: Group) -> Iterator[_Line]:
    """Each sequence of a group from its beginning."""
    for place, suffix in enumerate(group.suffixes):
        yield _Line(index, place, [*group.prefix, *suffix], max(len(group.prefix) - 1, 0))


def _length(past: Past) -> int:
    return past[0].shape[2] if past else 0
