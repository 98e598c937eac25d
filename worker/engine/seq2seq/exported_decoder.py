"""
Segments through graphs as people export them: batches of equally long rows, which begin together.

Knows: one model, one lane. Does not know: texts.
"""

import logging
import math
from collections import deque
from collections.abc import Iterator, Sequence

from jobs.spec import CachePolicy
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halves, is_out_of_memory, larger_half
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.search import search
from worker.engine.seq2seq.exported_graphs import ExportedGraphs
from worker.engine.seq2seq.exported_steps import ExportedSteps
from worker.engine.seq2seq.padding import make_batches
from worker.engine.seq2seq.protocol import Decoded

log = logging.getLogger(__name__)


class ExportedDecoder:
    """One lane's buffers for one model."""

    def __init__(self, graphs: ExportedGraphs, policy: CachePolicy, pad_id: int) -> None:
        self._graphs = graphs
        self._policy = policy
        self._pad_id = pad_id
        self._cache = graphs.new_cache()
        self._dropped = BufferStats()  # of buffers that were given up
        self._max_size: float = math.inf  # rows x source length that a batch may have, since a larger one did not fit

    @property
    def buffer_stats(self) -> BufferStats:
        """Of the cache and the buffers of a step."""
        return self._dropped + self._cache.buffer_stats

    def decode(
        self,
        segments: Sequence[Sequence[int]],
        rules: GenerationConfig,
        run: RunContext,
        *,
        batch_size: int,
    ) -> Iterator[Decoded]:
        """Every segment once. A batch for which there is not enough memory is halved until it fits, and those that come
        later are no larger. Raises what the model raises; of a shortage, that of a single row."""
        rest = deque(make_batches(segments, max_rows=batch_size, pad_id=self._pad_id))
        while rest:
            batch = rest.popleft()
            if batch.input_ids.size > self._max_size and len(batch.order) > 1:
                rest.extendleft(reversed(halves(segments, batch, self._pad_id)))
                continue
            try:
                decoding = ExportedSteps(self._graphs, self._cache, batch, policy=self._policy, run=run)
                found = search(decoding, len(batch.order), rules)
            except Exception as error:
                if len(batch.order) == 1 or not is_out_of_memory(error):
                    raise
                log.warning("%d rows of %d tokens do not fit into memory: %s", *batch.input_ids.shape, error)
            else:
                yield list(zip(batch.order, found, strict=True))
                continue
            # Only here, where the error is gone: it held on to the buffers of the call.
            self._max_size = larger_half(batch) * batch.input_ids.shape[1]
            self._drop_buffers()
            rest.appendleft(batch)

    def _drop_buffers(self) -> None:
        self._dropped += self._cache.buffer_stats.freed()
        self._cache = self._graphs.new_cache()
        self._graphs.give_memory_back()
