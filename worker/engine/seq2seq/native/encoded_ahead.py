"""
Sentences on their way into the slots: as many of one length as a call of the encoder takes go through it together, and
those for which no slot is free wait here, encoded.

So calls stay as large as the lengths of the sentences allow, however few slots are free at a time, and a slot is filled
as soon as it is free. One call's result is kept at most.

Shapes: m sentences · S their length · L layers of the decoder · N heads · H head size.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.graphs.seq2seq.quantized_kv import broken_sentences

# Of one call of the encoder. A token takes as long in larger calls, which need more memory.
ENCODED_TOKENS = 512


class EncodedAhead:
    """The sentences of one run that have no slot yet."""

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
            return self._graphs.encode_for_slots(ids)
