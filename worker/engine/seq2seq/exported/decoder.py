"""
Decoding with exported graphs, in padded batches whose rows begin together.

Knows: one model, one lane. Does not know: texts.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence

from jobs.tasks.shared_options import CachePolicy
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.search import search
from worker.engine.seq2seq.batches import PaddedBatch, make_batches, pad
from worker.engine.seq2seq.exported.graphs import ExportedSeq2SeqGraphs
from worker.engine.seq2seq.exported.steps import ExportedSteps
from worker.engine.seq2seq.protocol import BATCH_SIZE, Decoded


class ExportedDecoder:
    """One lane's cache for one model and one cache policy."""

    def __init__(self, graphs: ExportedSeq2SeqGraphs, policy: CachePolicy, pad_id: int) -> None:
        self._graphs = graphs
        self._policy = policy
        self._pad_id = pad_id
        self._cache = graphs.new_cache()
        self._dropped = BufferStats()  # of caches that did not fit into memory
        self._max_size: float = math.inf  # rows x source length of a batch that fits into memory

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the cache and of the step buffers."""
        return self._dropped + self._cache.buffer_stats

    def decode(
        self,
        segments: Sequence[Sequence[int]],
        rules: GenerationConfig,
        run: RunContext,
        *,
        batch_size: int | None,
    ) -> Iterator[Decoded]:
        """As `protocol.Decoder.decode`. A batch that does not fit into memory is halved until it does, and later
        batches are no larger."""
        batches = deque(make_batches(segments, max_rows=batch_size or BATCH_SIZE, pad_id=self._pad_id))
        while batches:
            batch = batches.popleft()
            rows, length = batch.input_ids.shape
            if rows * length > self._max_size and rows > 1:
                batches.extendleft(reversed(self._halves(segments, batch)))
                continue
            with halve_on_out_of_memory(rows, f"rows of {length} tokens") as attempt:
                yield list(zip(batch.order, self._search(batch, rules, run), strict=True))
            if not attempt.fits:
                self._max_size = attempt.half * length
                self._drop_buffers()
                batches.appendleft(batch)

    def _search(self, batch: PaddedBatch, rules: GenerationConfig, run: RunContext) -> list[list[Hypothesis]]:
        """Search the translations of a batch: the hypotheses of each row, best first."""
        steps = ExportedSteps(self._graphs, self._cache, batch, policy=self._policy, run=run)
        return search(steps, len(batch.order), rules)

    def _halves(self, segments: Sequence[Sequence[int]], batch: PaddedBatch) -> tuple[PaddedBatch, PaddedBatch]:
        """The same rows as two batches, the larger first; the second may have less padding."""
        middle = (len(batch.order) + 1) // 2
        return pad(segments, batch.order[:middle], self._pad_id), pad(segments, batch.order[middle:], self._pad_id)

    def _drop_buffers(self) -> None:
        self._dropped += self._cache.buffer_stats.freed()
        self._cache = self._graphs.new_cache()
        self._graphs.shrink_arena()
