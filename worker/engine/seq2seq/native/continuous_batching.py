"""
Decoding with native graphs and continuous batching: a slot takes the next sentence as soon as its own has ended.

    longest first -> encode sentences of one length together -> fill free slots -> one step of all rows
                  -> which sentences have ended? -> fill their slots, and so on

Knows: one model, one lane. Does not know: texts.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import NOT_FINITE, Hypothesis
from worker.engine.search.search import Search, new_search
from worker.engine.seq2seq.native.decode_step import DecodeStep
from worker.engine.seq2seq.native.encoded_ahead import EncodedAhead
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.native.lane_decoder import LaneDecoder
from worker.engine.seq2seq.protocol import Decoded

# An eighth of the slots has to be free before they are filled again, where each filling is a call of a device or of
# another process. In the memory of this process a slot is filled at once.
REFILLED_SHARE = 8


class ContinuousDecoder:
    """One lane's slots for one model."""

    def __init__(self, graphs: NativeSeq2SeqGraphs) -> None:
        self._graphs = graphs
        self._slots = graphs.new_slots()
        self._dropped = BufferStats()  # of slots that did not fit into memory
        # The step of the last call, with the kind of rules that it serves: the number of beams, and whether there is no
        # repetition penalty.
        self._step: tuple[tuple[int, bool], DecodeStep] | None = None
        self._max_sentences = 0  # the most sentences that fitted into memory so far; 0: not known yet

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the slots and of the step's outputs."""
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
        while waiting:
            num_slots = min(len(waiting), batch_size, self._max_sentences or batch_size)
            step = self._step_for(head.rules(rules))
            batch = _Batch(self._graphs, self._slots, step, segments, waiting, num_slots, run)
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

    def _step_for(self, rules: GenerationConfig) -> DecodeStep:
        """The DecodeStep of the last call, if it serves these rules too; else a new one."""
        kind = rules.num_beams, rules.repetition_penalty == 1.0
        if self._step is None or self._step[0] != kind:
            self._step = kind, DecodeStep(self._graphs, rules)
        return self._step[1]


class _Batch:
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
    ) -> None:
        self._running: set[int] = set()  # sentences that have a slot
        self._encoded = EncodedAhead(graphs, segments, waiting, run)
        self._slots = slots
        self._step = step
        self._segments = segments
        self._waiting = waiting
        self._num_slots = num_slots
        self._least_free = 1 if graphs.has_slots_here else -(-num_slots // REFILLED_SHARE)
        self._run = run

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
        slots.begin(self._num_slots, rules.num_beams, min(rules.max_new_tokens, longest + longest // 2), longest)
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
            logits, scales = self._step.run(search.last_ids, slots, self._run, number)
            number += 1
            ended, order = search.advance(logits, scales)
            if order is not None:
                slots.select(order)
            if ended:
                self._running -= ended.keys()
                yield ended

    def _fill_slots(self, search: Search, num_free: int) -> None:
        """Move sentences into the free slots."""
        while num_free and self._encoded:
            together, cross = self._encoded.take(num_free)
            self._running.update(together)
            self._slots.admit(cross)
            del cross  # before the encoder is called again
            search.add(together)
            num_free -= len(together)
