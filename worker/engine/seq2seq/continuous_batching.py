"""
Segments through graphs of our own: slots that are filled again as soon as a sentence ends.

    longest first -> encode the newcomers, equally long ones together -> one step of all rows -> who has ended? -> again

Knows: one model, one lane. Does not know: texts.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.out_of_memory import halve_on_out_of_memory
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.search import Search, new_search
from worker.engine.seq2seq.decode_step import DecodeStep
from worker.engine.seq2seq.device_kv_slots import DeviceKVSlots
from worker.engine.seq2seq.kv_slots import KVSlots
from worker.engine.seq2seq.native_graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.protocol import Decoded

ENCODED_TOKENS = (
    256  # at once: a token takes as long in larger calls (opus-shaped, 95 to 105 us), which need more memory
)
REFILLED_SHARE = 8  # an eighth of the slots is free before newcomers are encoded: small models pay for each call


class ContinuousDecoder:
    """One lane's slots for one model."""

    def __init__(self, graphs: NativeSeq2SeqGraphs) -> None:
        self._graphs = graphs
        self._slots = graphs.new_slots()
        self._dropped = BufferStats()  # of slots that were given up
        self._last: tuple[tuple[int, bool], DecodeStep] | None = None
        self._most = 0  # sentences that fit into memory, once that is known; 0: not known

    @property
    def buffer_stats(self) -> BufferStats:
        """Of the slots and the outputs of a step."""
        step = self._last[1].buffer_stats if self._last else BufferStats()
        return self._dropped + self._slots.buffer_stats + step

    def decode(
        self,
        segments: Sequence[Sequence[int]],
        rules: GenerationConfig,
        run: RunContext,
        *,
        batch_size: int,
    ) -> Iterator[Decoded]:
        """Every segment once, as it ends. Raises Stopped where told to stop, and what the model raises; of a shortage
        of memory, that of a single sentence."""
        waiting = deque(sorted(range(len(segments)), key=lambda index: -len(segments[index])))
        ended: Decoded = []
        while waiting:
            room = min(len(waiting), batch_size, self._most or batch_size)
            stepper = self._stepper(self._graphs.head.rules(rules))
            batch = _Batch(self._graphs, self._slots, stepper, segments, waiting, room, run)
            with halve_on_out_of_memory(room, "sentences") as attempt:
                for found in batch.steps(self._graphs.head.rules(rules)):
                    ended += [(index, list(map(self._graphs.head.hypothesis, best))) for index, best in found.items()]
                    if len(ended) >= batch_size:
                        yield ended
                        ended = []
            if not attempt.fits:  # sentences under way begin again
                self._most = attempt.half
                waiting.extendleft(sorted(batch.under_way, key=lambda index: len(segments[index])))
                self._dropped += self._slots.buffer_stats.freed()
                self._slots = self._graphs.new_slots()
        if ended:
            yield ended

    def _stepper(self, rules: GenerationConfig) -> DecodeStep:
        """The one of the last call, where it serves these rules too."""
        kind = rules.num_beams, rules.repetition_penalty == 1.0
        if self._last is None or self._last[0] != kind:
            self._last = kind, DecodeStep(self._graphs, rules)
        return self._last[1]


class _Batch:
    """Segments on their way through the slots of a lane."""

    def __init__(
        self,
        graphs: NativeSeq2SeqGraphs,
        slots: KVSlots | DeviceKVSlots,
        stepper: DecodeStep,
        segments: Sequence[Sequence[int]],
        waiting: deque[int],  # longest first
        room: int,  # sentences
        run: RunContext,
    ) -> None:
        self.under_way: set[int] = set()
        self._graphs = graphs
        self._slots = slots
        self._stepper = stepper
        self._segments = segments
        self._waiting = waiting
        self._room = room
        self._run = run

    def steps(self, rules: GenerationConfig) -> Iterator[dict[int, list[Hypothesis]]]:
        """Whoever ended, after each step where somebody did."""
        slots, waiting, stepper = self._slots, self._waiting, self._stepper
        search = new_search(rules, rescore=stepper.rescore)
        longest = len(self._segments[waiting[0]])
        # The usual translation is about as long as its source; who needs more finds the slots grown.
        slots.begin(self._room, rules.num_beams, min(rules.max_new_tokens, longest + longest // 2), longest)
        step = 0
        while waiting or search.num_sentences:
            free = self._room - search.num_sentences
            if waiting and free * REFILLED_SHARE >= self._room:
                self._admit(search, free)
            self._run.raise_if_stopped("steps")
            logits, scales = stepper.run(search.last_ids, slots, self._run, step)
            step += 1
            found, moves = search.advance(logits, scales)
            if moves is not None:
                slots.select(moves)
            if found:
                self.under_way -= found.keys()
                yield found

    def _admit(self, search: Search, free: int) -> None:
        """Fill the free slots with those that wait."""
        while free and self._waiting:
            length = len(self._segments[self._waiting[0]])
            together: list[int] = []
            most = min(free, max(1, ENCODED_TOKENS // length))
            while self._waiting and len(together) < most and len(self._segments[self._waiting[0]]) == length:
                together.append(self._waiting.popleft())
            self.under_way.update(together)
            ids = np.array([self._segments[index] for index in together], np.int64)
            with self._run.measure("encode", rows=len(together), tokens=ids.size):
                cross = self._graphs.encode_for_slots(ids)
            self._slots.admit(cross)
            search.admit(together)
            free -= len(together)
