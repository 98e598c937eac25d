"""
Segments through graphs of our own, without the cache: the slow twin of `worker.engine.seq2seq.continuous_batching`.

With `--cache off`, every step runs all tokens of every row again. With `hybrid:N` the first N steps do, and the slots
go on with the keys and values of the last of them.

Shapes: R rows, equally many a sentence · B sentences · S source length · T tokens of a row · L layers · N heads ·
H head size · V vocabulary of the head.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.logit_rules import Floats, Ids
from worker.engine.search.search import new_search, run_search
from worker.engine.seq2seq.decode_step import DecodeStep
from worker.engine.seq2seq.device_kv_slots import DeviceKVSlots
from worker.engine.seq2seq.encoder_states import encode_sources, feed_sources
from worker.engine.seq2seq.kv_slots import KVSlots
from worker.engine.seq2seq.native_graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.protocol import Decoded


class UncachedDecoder:
    """One lane's way without a cache, for one model. Sentences of a batch begin together."""

    def __init__(self, graphs: NativeSeq2SeqGraphs, num_steps: int) -> None:
        """`num_steps`: how many of a search run without the cache."""
        self._graphs = graphs
        self._num_steps = num_steps
        self._slots = graphs.new_slots()  # for what `hybrid` hands over
        self._dropped = BufferStats()  # of slots that were given up
        self._most = 0  # sentences that fit into memory, once that is known; 0: not known

    @property
    def buffer_stats(self) -> BufferStats:
        """Of the slots."""
        return self._dropped + self._slots.buffer_stats

    def decode(
        self,
        segments: Sequence[Sequence[int]],
        rules: GenerationConfig,
        run: RunContext,
        *,
        batch_size: int,
    ) -> Iterator[Decoded]:
        """Every segment once, batch by batch. Raises Stopped where told to stop, and what the model raises; of a
        shortage of memory, that of a single sentence."""
        waiting = deque(sorted(range(len(segments)), key=lambda index: -len(segments[index])))
        while waiting:
            size = min(len(waiting), batch_size, self._most or batch_size)
            batch = [waiting.popleft() for _ in range(size)]
            with halve_on_out_of_memory(size, "sentences") as attempt:
                found = self._search([segments[index] for index in batch], rules, run)
                yield list(zip(batch, found, strict=True))
            if not attempt.fits:
                self._most = attempt.half
                waiting.extendleft(reversed(batch))
                self._dropped += self._slots.buffer_stats.freed()
                self._slots = self._graphs.new_slots()

    def _search(
        self, sources: Sequence[Sequence[int]], rules: GenerationConfig, run: RunContext
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first."""
        head = self._graphs.head
        steps = _Prefixes(self._graphs, self._slots, sources, rules, self._num_steps, run)
        found = run_search(new_search(head.rules(rules)), steps, len(sources))
        return [list(map(head.hypothesis, best)) for best in found]


class _Prefixes:
    """One batch on its way; what `worker.engine.search.search` calls Steps."""

    def __init__(
        self,
        graphs: NativeSeq2SeqGraphs,
        slots: KVSlots | DeviceKVSlots,
        sources: Sequence[Sequence[int]],  # longest first
        rules: GenerationConfig,
        uncached: int,
        run: RunContext,
    ) -> None:
        self._graphs = graphs
        self._slots = slots
        self._beams = beams = rules.num_beams
        self._rules = rules
        self._stepper: DecodeStep  # for what comes after the prefixes
        self._uncached = uncached
        self._run = run
        self._prefix = graphs.prefix_decoder()
        self._present = [output.name for output in self._prefix.get_outputs() if output.name != "logits"]
        self._steps = 0
        self._ids = np.empty((len(sources) * beams, 0), np.int64)  # (R, T)
        self._lengths = np.array([len(source) for source in sources])  # (B,)
        self._cross = encode_sources(graphs, sources, run)  # (2 L, B, N, S, H), zeros behind a source's end

    def step(self, last_ids: Ids) -> Floats:
        """Append one id to each row (R,); the logits of the next one (R, V). Raises Stopped where told to stop."""
        self._run.raise_if_stopped("steps")
        step, self._steps = self._steps, self._steps + 1
        if step >= self._uncached:
            logits, scales = self._stepper.run(last_ids, self._slots, self._run, step)
            return logits if scales is None else logits * scales[:, None]
        ids = self._graphs.head.to_ids(last_ids)
        self._ids = np.concatenate((self._ids, ids[:, None]), axis=1)
        keep = step + 1 == self._uncached
        num_rows, length = self._ids.shape
        feed = {
            "ids": self._ids,
            "ends": np.full(num_rows, length - 1, np.int32),
            "length": np.array([length], np.int32),
            **feed_sources(self._cross, self._lengths),
        }
        phase = "decode" if step else "prefill"
        with self._run.measure(phase, step=step, rows=num_rows, tokens=self._ids.size):
            logits, *present = self._prefix.run(["logits", *(self._present if keep else ())], feed)
        if keep:
            self._fill_slots(present)
        return np.asarray(logits, np.float32)

    def select(self, rows: Ids) -> None:
        """Row i continues what was row rows[i]; rows that are not named are gone."""
        if self._steps >= self._uncached:
            self._slots.select(rows)
            return
        self._ids = self._ids[rows]
        sources = rows[:: self._beams] // self._beams
        if len(sources) != len(self._lengths) or (sources != np.arange(len(sources))).any():
            self._cross, self._lengths = self._cross[:, sources], self._lengths[sources]

    def _fill_slots(self, present: Sequence[Floats]) -> None:
        """Hand all rows over."""
        slots, length = self._slots, self._ids.shape[1]
        slots.begin(len(self._lengths), self._beams, 2 * length, self._cross.shape[3])
        for index, end in enumerate(self._lengths.tolist()):
            slots.admit(self._cross[:, index : index + 1, :, :end].transpose(1, 3, 0, 2, 4))
        slots.fill(present)
        self._stepper = DecodeStep(self._graphs, self._rules, exact=True)
