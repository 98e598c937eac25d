"""
Decoding with exported graphs, in padded batches whose rows begin together.

    step 0        whole prefix (the start token)      -> logits, keys and values of source and prefix
    step 1, ...   one token per row, with the past    -> logits, the past with one more position

Without a cache every step runs the whole prefix. With `hybrid:N` the first N steps do, and the cached steps continue
with the keys and values of the last of them.

Knows: one model, one lane; which session runs at which step, and what is bound to it. Does not know: texts, how tokens
are chosen.

Shapes: B sources · R rows (B, or B x beams) · S source length · T prefix length · P past length · D width ·
V vocabulary.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession, IOBinding

from jobs.tasks.shared_options import CachePolicy
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.host_arrays import bind_input, bind_output
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.search.search import search
from worker.engine.seq2seq.batches import PaddedBatch, make_batches, pad
from worker.engine.seq2seq.exported.graphs import ExportedSeq2SeqGraphs
from worker.engine.seq2seq.exported.kv_cache import ExportedKVCache
from worker.engine.seq2seq.protocol import BATCH_SIZE, NEVER_CACHED, Decoded, uncached_steps

MAX_LOGITS = 1 << 26  # numbers of one uncached call: 256 MB


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
                yield list(zip(batch.order, self._search(batch, rules.only(batch.order), run), strict=True))
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


class ExportedSteps:
    """The steps of one batch (`worker.engine.search.search.Steps`)."""

    def __init__(
        self,
        graphs: ExportedSeq2SeqGraphs,
        cache: ExportedKVCache,
        batch: PaddedBatch,
        *,
        policy: CachePolicy,
        run: RunContext,
    ) -> None:
        """Run the encoder. `cache` is the lane's, and serves one batch at a time."""
        self._uncached_steps = _uncached_steps(graphs, policy)
        self._graphs = graphs
        self._cache = cache
        self._run = run
        self._ids = np.empty((len(batch.order), 0), np.int64)  # (R, T): the prefix, while steps still run all of it
        self._steps = 0
        self._mask = batch.attention_mask  # (R, S)
        with run.measure("encode", rows=len(batch.order), tokens=batch.input_ids.size):
            self._hidden: NDArray[Any] = graphs.encoder.run(
                ["last_hidden_state"], {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
            )[0]  # (R, S, D)
        cache.reset(len(batch.order), batch.input_ids.shape[1])
        self._first = _Binding(graphs.first_decoder, graphs.first_inputs)
        self._next: _Binding | None = None  # from the first cached step on

    def step(self, last_ids: Ids) -> Floats:
        """Append one id to each row (R,); the logits of the next id (R, V), valid until the next step. Raises
        Stopped if the run is to end."""
        self._run.raise_if_stopped("steps")
        step, self._steps = self._steps, self._steps + 1
        if step < self._uncached_steps:
            self._ids = np.concatenate((self._ids, last_ids[:, None]), axis=1)  # (R, T)
            logits = self._run_prefix(step)
        else:
            logits = self._run_next(step, last_ids)
        return np.asarray(logits[:, 0], np.float32)  # a graph in half precision gives float16

    def select(self, rows: Ids) -> None:
        self._cache.select(rows)
        if self._steps < self._uncached_steps:  # the next step runs the whole prefix again
            self._ids, self._hidden = self._ids[rows], self._hidden[rows]
        if len(rows) != len(self._mask) or (self._mask[rows] != self._mask).any():
            self._mask = self._mask[rows]
            self._next = None  # arrays that stay bound from step to step have another shape now

    def _run_prefix(self, step: int) -> NDArray[Any]:
        """Run the whole prefix of every row; at the last uncached step, keep its keys and values."""
        num_rows, length = self._ids.shape
        vocab_size = self._graphs.layout.vocab_size
        keep = step + 1 == self._uncached_steps
        # The graph gives the logits of every position: 130 MB a step for 10 rows of 50 tokens and 65,001 ids. So a call
        # has few rows, except at the one step whose keys and values stay.
        rows_per_call = num_rows if keep else max(1, MAX_LOGITS // (length * vocab_size))
        last = self._cache.step_buffer("last", (num_rows, 1, vocab_size), np.dtype(np.float32))
        phase = "decode" if step else "prefill"
        with self._run.measure(phase, step=step, rows=num_rows, tokens=num_rows * length):
            for start in range(0, num_rows, rows_per_call):
                rows = slice(start, start + rows_per_call)
                logits = self._bind_prefix(rows)
                if keep:
                    self._cache.bind_prefix(self._first.io, length)
                self._first.run()
                last[rows, 0] = logits[:, -1]
        if keep:
            self._cache.advance(length)
        return last

    def _bind_prefix(self, rows: slice) -> NDArray[Any]:
        """Bind some rows. Returns the array for their logits (rows, T, V)."""
        binding, ids = self._first, self._ids[rows]
        binding.feed("input_ids", ids)
        binding.feed("encoder_hidden_states", self._hidden[rows])
        binding.feed("encoder_attention_mask", self._mask[rows])
        binding.feed("decoder_attention_mask", np.ones(ids.shape, np.int64))
        binding.feed("use_cache_branch", np.array([False]))
        self._feed_dummy_past(binding, len(ids))
        return self._take_logits(binding, *ids.shape)

    def _run_next(self, step: int, last_ids: Ids) -> NDArray[Any]:
        """Run the last position alone. The keys and values of the source come from the first step: the graph's cached
        branch outputs empty ones, which are therefore not bound."""
        cache, num_rows = self._cache, len(last_ids)
        if self._next is None:
            self._next = self._bind_steps(num_rows)
        binding, past_length = self._next, cache.length
        self._step_ids[:, 0] = last_ids
        binding.feed("input_ids", self._step_ids)  # at every step, because a GPU gets a copy when an input is bound
        binding.feed("decoder_attention_mask", np.ones((num_rows, past_length + 1), np.int64))
        cache.bind_step(binding.io)
        with self._run.measure("decode", step=step, rows=num_rows, tokens=num_rows, past_length=past_length):
            binding.run()
        cache.advance(past_length + 1)
        return self._step_logits

    def _bind_steps(self, num_rows: int) -> "_Binding":
        """Bind the arrays that stay the same from step to step, until the rows change."""
        graphs = self._graphs
        assert graphs.next_decoder is not None
        binding = _Binding(graphs.next_decoder, graphs.next_inputs)
        self._step_ids = self._cache.step_buffer("ids", (num_rows, 1), np.dtype(np.int64))
        binding.feed("encoder_attention_mask", self._mask)
        binding.feed("encoder_hidden_states", self._hidden)  # read by the other branch only
        binding.feed("use_cache_branch", np.array([True]))
        self._cache.bind_source(binding.io)
        self._step_logits = self._take_logits(binding, num_rows, 1)
        return binding

    def _take_logits(self, binding: "_Binding", num_rows: int, length: int) -> NDArray[Any]:
        layout = self._graphs.layout
        logits = self._cache.step_buffer("logits", (num_rows, length, layout.vocab_size), layout.logits_dtype)
        binding.take("logits", logits)
        return logits

    def _feed_dummy_past(self, binding: "_Binding", num_rows: int) -> None:
        for past, dummy in self._graphs.dummy_past(num_rows).items():
            binding.feed(past, dummy)


class _Binding:
    """An IOBinding that skips inputs which the graph lacks, and keeps the bound arrays alive."""

    def __init__(self, session: InferenceSession, inputs: frozenset[str]) -> None:
        self.io: IOBinding = session.io_binding()
        self._session = session
        self._inputs = inputs
        self._alive: dict[str, NDArray[Any]] = {}

    def feed(self, name: str, array: NDArray[Any]) -> None:
        if name in self._inputs:
            array = self._alive[name] = np.ascontiguousarray(array)
            bind_input(self.io, name, array)

    def take(self, name: str, array: NDArray[Any]) -> None:
        self._alive[name] = array
        bind_output(self.io, name, array)

    def run(self) -> None:
        self._session.run_with_iobinding(self.io)


def _uncached_steps(graphs: ExportedSeq2SeqGraphs, policy: CachePolicy) -> int:
    """How many steps run the whole prefix (at least one). Raises SpecError if the graphs cannot follow `policy`."""
    graphs.check_cache(policy)
    return max(1, uncached_steps(policy)) if graphs.has_cache else NEVER_CACHED
