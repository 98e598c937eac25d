"""
Decoding with native graphs and continuous batching: a slot takes the next sentence as soon as its own has ended.

    longest first -> encode sentences of one length together -> fill free slots -> one step of all rows
                  -> which sentences have ended? -> fill their slots, and so on

Knows: one model, one lane. Does not know: texts.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import NOT_FINITE, Hypothesis
from worker.engine.search.rows import RowOrder
from worker.engine.search.search import Search, new_search
from worker.engine.seq2seq.native.attention_recorder import AttentionRecorder
from worker.engine.seq2seq.native.decode_step import DecodeStep
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.native.lane_decoder import LaneDecoder
from worker.engine.seq2seq.protocol import Decoded
from worker.graphs.seq2seq.quantized_kv import broken_sentences
from worker.models.manifest import AttentionChoice

# An eighth of the slots has to be free before they are filled again, where each filling is a call of a device or of
# another process. In the memory of this process a slot is filled at once.
REFILLED_SHARE = 8
# Of one call of the encoder. A token takes as long in larger calls, which need more memory.
ENCODED_TOKENS = 512


class ContinuousDecoder:
    """One lane's slots for one model."""

    def __init__(self, graphs: NativeSeq2SeqGraphs, attention: AttentionChoice | None = None) -> None:
        """`attention`: that to record in runs that read sentences with their translations again."""
        self._graphs = graphs
        self._attention = attention
        self._slots = graphs.new_slots()
        self._dropped = BufferStats()  # of slots that did not fit into memory
        # The step of the last call, with the kind of rules that it serves: the number of beams, whether there is no
        # repetition penalty, whether no token is drawn, and the layers that are recorded.
        self._step: tuple[tuple[int, bool, bool, tuple[int, ...]], DecodeStep] | None = None
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
        """As `protocol.Decoder.decode`; segments come in the order in which they end."""
        batch_size = batch_size or self._graphs.slot_count(rules.num_beams)
        waiting = deque(sorted(range(len(segments)), key=lambda index: -len(segments[index])))
        head = self._graphs.head
        ended: Decoded = []
        recorded = self._attention if run.first_readings is not None and self._graphs.tells_queries else None
        while waiting:
            num_slots = min(len(waiting), batch_size, self._max_sentences or batch_size)
            step = self._step_for(head.rules(rules), () if recorded is None else recorded.layers)
            recorder = None
            if recorded is not None:
                scale = self._graphs.attention_scale
                recorder = AttentionRecorder(recorded.layers, scale, rules.num_beams, recorded.head)
            batch = _SentenceBatch(self._graphs, self._slots, step, segments, waiting, num_slots, run, recorder)
            with halve_on_out_of_memory(num_slots, "sentences") as attempt:
                for hypotheses in batch.steps(head.rules(rules)):
                    ended += [(index, list(map(head.hypothesis, best))) for index, best in hypotheses.items()]
                    if len(ended) >= batch_size:
                        yield ended
                        ended = []
            if not attempt.fits:  # running sentences begin again
                self._max_sentences = attempt.half
                waiting.extendleft(sorted(batch.begun, key=lambda index: len(segments[index])))
                self._dropped += self._slots.buffer_stats.freed()
                self._slots = self._graphs.new_slots()
        if ended:
            yield ended

    def _step_for(self, rules: GenerationConfig, recorded: tuple[int, ...]) -> DecodeStep:
        """The DecodeStep of the last call, if it serves these rules and layers too; else a new one."""
        kind = rules.num_beams, rules.repetition_penalty == 1.0, rules.sampling is None, recorded
        if self._step is None or self._step[0] != kind:
            self._step = kind, DecodeStep(self._graphs, rules, queries=recorded)
        return self._step[1]


class _SentenceBatch:
    """One call of `decode`: sentences that run in the slots of a lane until none is left."""

    def __init__(
        self,
        graphs: NativeSeq2SeqGraphs,
        slots: LaneDecoder,
        step: DecodeStep,
        segments: Sequence[Sequence[int]],
        waiting: deque[int],  # longest first
        num_slots: int,
        run: RunContext,
        recorder: AttentionRecorder | None,
    ) -> None:
        """`recorder`: finds where the decoder attends in the best translation of each sentence, which the run keeps."""
        self._running: set[int] = set()  # sentences that have a slot
        self._encoded = EncodedAhead(graphs, segments, waiting, run)
        self._slots = slots
        self._step = step
        self._segments = segments
        self._waiting = waiting
        self._num_slots = num_slots
        self._least_free = 1 if graphs.has_slots_here else -(-num_slots // REFILLED_SHARE)
        self._run = run
        self._graphs = graphs
        self._recorder = recorder

    @property
    def begun(self) -> set[int]:
        """The sentences that are no longer waiting and have not ended."""
        return self._running.union(self._encoded.begun, self._encoded.broken)

    def steps(self, rules: GenerationConfig) -> Iterator[dict[int, list[Hypothesis]]]:
        """Yield the hypotheses of the sentences that ended, after each step in which some did."""
        slots = self._slots
        search = new_search(rules, rescore=self._step.rescore)
        longest = len(self._segments[self._waiting[0]])
        # Most translations are about as long as their source; for longer ones the slots grow.
        slots.allocate(self._num_slots, rules.num_beams, min(rules.max_new_tokens, longest + longest // 2), longest)
        number = 0
        while self._encoded or search.num_sentences:
            num_free = self._num_slots - search.num_sentences
            if num_free >= self._least_free:
                self._fill_slots(search, num_free)
            if broken := self._encoded.broken:
                self._encoded.broken = []
                yield {index: [NOT_FINITE] for index in broken}
                continue
            self._run.raise_if_stopped("steps")
            last_ids = search.last_ids
            logits, scales = self._step.run(last_ids, slots, self._run, number)
            if self._recorder is not None:
                self._recorder.read(last_ids, self._step.queries)
            number += 1
            ended, order = search.advance(logits, scales)
            if order is not None:
                slots.select(order)
            if self._recorder is not None:
                self._keep_attention(self._recorder, ended, order, rules.start_id)
            if ended:
                self._running -= ended.keys()
                yield ended

    def _fill_slots(self, search: Search, num_free: int) -> None:
        """Move sentences into the free slots."""
        while num_free and self._encoded:
            together, cross = self._encoded.take(num_free)
            self._running.update(together)
            self._slots.append(cross)
            if self._recorder is not None:
                self._recorder.begin(together, cross)
            del cross  # before the encoder is called again
            search.add(together)
            num_free -= len(together)

    def _keep_attention(
        self,
        recorder: AttentionRecorder,
        ended: Mapping[int, list[Hypothesis]],
        order: RowOrder,
        start_id: int,
    ) -> None:
        """Keep that of the sentences that have ended, and reorder the rows of the others."""
        kept = self._run.first_readings
        assert kept is not None
        if ended:
            num_tokens = sum(len(best.ids) for best, *_others in ended.values())
            with self._run.measure("align", rows=len(ended), tokens=num_tokens):
                for sentence, (best, *_others) in ended.items():
                    if math.isfinite(best.log_prob):
                        weights = recorder.weights(sentence, (start_id, *best.ids[:-1]))
                        ids = self._graphs.head.hypothesis(best).ids
                        kept.keep_attention(self._graphs, self._segments[sentence], ids, weights)
                    recorder.end(sentence)
        if order is not None:
            recorder.select(order)


class EncodedAhead:
    """The sentences of one run that have no slot yet: as many of one length as a call of the encoder takes go through
    it together, and those for which no slot is free wait here, encoded.

    So calls stay as large as the lengths of the sentences allow, however few slots are free at a time, and a slot is
    filled as soon as it is free. One call's result is kept at most. Shapes: m sentences · S their length · L layers of
    the decoder · N heads · H head size.
    """

    def __init__(
        self, graphs: NativeSeq2SeqGraphs, segments: Sequence[Sequence[int]], waiting: deque[int], run: RunContext
    ) -> None:
        """`waiting`: indices of segments, longest first; those that go through the encoder are removed from it."""
        self.begun: list[int] = []  # removed from `waiting`, and not taken
        self.broken: list[int] = []  # sentences whose encoding is not finite, also removed; the caller takes them
        self._graphs = graphs
        self._segments = segments
        self._waiting = waiting
        self._run = run
        self._cross: Any = None  # of `begun`

    def __bool__(self) -> bool:
        """Whether a sentence is left."""
        return bool(self.begun or self._waiting)

    def take(self, most: int) -> tuple[list[int], Any]:
        """The next sentences of one length, at most `most`: their indices, and their cross-attention keys and values
        (m, S, 2 L, N, H), in the memory of the slots or on the host. None if every sentence that was encoded now is
        broken."""
        if not self.begun:
            self._cross = self._encode(most)
            self._set_broken_aside()
        taken, self.begun = self.begun[:most], self.begun[most:]
        if self.begun:
            cross, self._cross = self._cross[: len(taken)], self._cross[len(taken) :]
        else:
            cross, self._cross = self._cross, None  # frees the memory once the slots have a copy
        return taken, cross

    def _set_broken_aside(self) -> None:
        if self._graphs.encodes_on_device:  # which has no int8 products: NaN goes on into the logits
            return
        broken = broken_sentences(self._cross[:, 0, 0])
        if broken.any():
            self.broken += [index for index, is_broken in zip(self.begun, broken, strict=True) if is_broken]
            self.begun = [index for index, is_broken in zip(self.begun, broken, strict=True) if not is_broken]
            self._cross = self._cross[~broken]

    def _encode(self, most: int) -> Any:
        """Encode waiting sentences of one length."""
        waiting, length = self._waiting, len(self._segments[self._waiting[0]])
        count = max(1, ENCODED_TOKENS // length)
        if self._graphs.encodes_on_device:  # a tensor there cannot be cut
            count = min(count, most)
        while waiting and len(self.begun) < count and len(self._segments[waiting[0]]) == length:
            self.begun.append(waiting.popleft())
        ids: NDArray[np.int64] = np.array([self._segments[index] for index in self.begun], np.int64)
        with self._run.measure("encode", rows=len(ids), tokens=ids.size):
            encoded = self._graphs.encode_for_slots(ids)
        if self._run.first_readings is not None and isinstance(encoded, np.ndarray):
            self._run.first_readings.keep(self._graphs, [self._segments[index] for index in self.begun], encoded)
        return encoded
