"""
Decoding with native graphs and without the cache: the slow reference of `continuous_batching.py`.

With `--cache off`, every step computes all tokens of every row again. With `hybrid:N` the first N steps do; then the
keys and values of the last of them go into the slots, and the cache is used.

Shapes: R rows, equally many per sentence · B sentences · S source length · T tokens of a row · L layers · N heads ·
H head size · V ids of the head.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import NOT_FINITE, Hypothesis
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.search.search import new_search, run_search
from worker.engine.seq2seq.native.decode_step import DecodeStep
from worker.engine.seq2seq.native.encoder_states import cross_attention_feed, encode_padded
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.native.lane_decoder import LaneDecoder
from worker.engine.seq2seq.protocol import BATCH_SIZE, Decoded
from worker.graphs.seq2seq.quantized_kv import broken_sentences


class UncachedDecoder:
    """One lane's decoder for one model with `--cache off`, or with `hybrid:N`, which uses slots after N steps. The
    sentences of a batch begin together."""

    def __init__(self, graphs: NativeSeq2SeqGraphs, num_uncached: int) -> None:
        """`num_uncached`: how many steps of a search run without the cache."""
        self._graphs = graphs
        self._num_uncached = num_uncached
        self._slots = graphs.new_slots()
        self._dropped = BufferStats()  # of slots that did not fit into memory
        self._max_sentences = 0  # the most sentences that fitted into memory so far; 0: not known yet

    @property
    def buffer_stats(self) -> BufferStats:
        return self._dropped + self._slots.buffer_stats

    def decode(
        self,
        segments: Sequence[Sequence[int]],
        rules: GenerationConfig,
        run: RunContext,
        *,
        batch_size: int | None,
    ) -> Iterator[Decoded]:
        """As `protocol.Decoder.decode`; segments come batch by batch, longest first."""
        batch_size = batch_size or BATCH_SIZE
        waiting = deque(sorted(range(len(segments)), key=lambda index: -len(segments[index])))
        while waiting:
            size = min(len(waiting), batch_size, self._max_sentences or batch_size)
            batch = [waiting.popleft() for _ in range(size)]
            with halve_on_out_of_memory(size, "sentences") as attempt:
                hypotheses = self._search([segments[index] for index in batch], rules.only(batch), run)
                yield list(zip(batch, hypotheses, strict=True))
            if not attempt.fits:
                self._max_sentences = attempt.half
                waiting.extendleft(reversed(batch))
                self._dropped += self._slots.buffer_stats.freed()
                self._slots = self._graphs.new_slots()

    def _search(
        self, sources: Sequence[Sequence[int]], rules: GenerationConfig, run: RunContext
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        head = self._graphs.head
        steps = _UncachedSteps(self._graphs, self._slots, sources, rules, self._num_uncached, run)
        broken = steps.broken
        hypotheses = run_search(new_search(head.rules(rules)), steps, len(sources))
        return [
            [NOT_FINITE] if is_broken else list(map(head.hypothesis, best))
            for best, is_broken in zip(hypotheses, broken.tolist(), strict=True)
        ]


class _UncachedSteps:
    """The steps of one batch (`worker.engine.search.search.Steps`)."""

    def __init__(
        self,
        graphs: NativeSeq2SeqGraphs,
        slots: LaneDecoder,
        sources: Sequence[Sequence[int]],  # longest first
        rules: GenerationConfig,
        num_uncached: int,
        run: RunContext,
    ) -> None:
        self._graphs = graphs
        self._slots = slots
        self._beams = beams = rules.num_beams
        self._rules = rules
        self._cached_step: DecodeStep  # once the slots are filled
        self._num_uncached = num_uncached
        self._run = run
        self._session = graphs.uncached_decoder()
        self._present = [output.name for output in self._session.get_outputs() if output.name != "logits"]
        self._steps = 0
        self._ids = np.empty((len(sources) * beams, 0), np.int64)  # (R, T)
        self._lengths = np.array([len(source) for source in sources])  # (B,)
        self._cross = encode_padded(graphs, sources, run)  # (2 L, B, N, S, H)
        self.broken = broken_sentences(self._cross[0, :, :, 0])  # (B,), of all sources

    def step(self, last_ids: Ids) -> Floats:
        """Append one id to each row (R,); the logits of the next id (R, V). Raises Stopped if the run is to end."""
        self._run.raise_if_stopped("steps")
        step, self._steps = self._steps, self._steps + 1
        if step >= self._num_uncached:
            logits, scales = self._cached_step.run(last_ids, self._slots, self._run, step)
            return logits if scales is None else logits * scales[:, None]
        ids = self._graphs.head.to_ids(last_ids)
        self._ids = np.concatenate((self._ids, ids[:, None]), axis=1)
        is_last = step + 1 == self._num_uncached
        num_rows, length = self._ids.shape
        feed = {
            "ids": self._ids,
            "ends": np.full(num_rows, length - 1, np.int32),
            "length": np.array([length], np.int32),
            **cross_attention_feed(self._cross, self._lengths),
        }
        phase = "decode" if step else "prefill"
        with self._run.measure(phase, step=step, rows=num_rows, tokens=self._ids.size):
            logits, *present = self._session.run(["logits", *(self._present if is_last else ())], feed)
        if is_last:
            self._fill_slots(present)
        return np.asarray(logits, np.float32)

    def select(self, rows: Ids) -> None:
        if self._steps >= self._num_uncached:
            self._slots.select(rows)
            return
        self._ids = self._ids[rows]
        sentences = rows[:: self._beams] // self._beams
        if len(sentences) != len(self._lengths) or (sentences != np.arange(len(sentences))).any():
            self._cross, self._lengths = self._cross[:, sentences], self._lengths[sentences]

    def _fill_slots(self, present: Sequence[Floats]) -> None:
        """Copy the keys and values of all rows into the slots, for the cached steps that follow."""
        slots, length = self._slots, self._ids.shape[1]
        slots.allocate(len(self._lengths), self._beams, 2 * length, self._cross.shape[3])
        for index, end in enumerate(self._lengths.tolist()):
            slots.append(self._cross[:, index : index + 1, :, :end].transpose(1, 3, 0, 2, 4))
        slots.fill(present)
        self._cached_step = DecodeStep(self._graphs, self._rules, exact=True)
