"""
Where the decoder of a native model attends in given translations: those that it wrote in the same run are not read
again.

Shapes: B pairs · S longest source · T longest target · N heads.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.native.encoder_states import cross_attention_feed, encode_padded
from worker.engine.seq2seq.native.graphs import NativeSeq2SeqGraphs
from worker.engine.seq2seq.native.scorer import PackedTargets
from worker.graphs.seq2seq.attention_weights import WantedAttention
from worker.models.manifest import AttentionChoice


class NativeAttentionReader:
    """One lane's reader; it keeps no memory between calls."""

    def __init__(self, graphs: NativeSeq2SeqGraphs, start_id: int, choice: AttentionChoice) -> None:
        """`choice`: of the model."""
        self._graphs = graphs
        self._start_id = start_id
        self.choice = choice

    @property
    def num_layers(self) -> int:
        return self._graphs.shape.num_layers

    def attention(
        self, pairs: Sequence[IdPair], layers: Sequence[int], run: RunContext, head: int | None = None
    ) -> list[NDArray[np.float32]]:
        is_recorded = run.first_readings is not None and (tuple(layers), head) == (self.choice.layers, self.choice.head)
        known = [self._recorded(pair, run) if is_recorded else None for pair in pairs]
        others = [pair for pair, own in zip(pairs, known, strict=True) if own is None]
        unread = iter(self._read(others, WantedAttention(tuple(layers), head), run) if others else ())
        return [next(unread) if own is None else own for own in known]

    def attention_by_head(self, pairs: Sequence[IdPair], layer: int, run: RunContext) -> list[NDArray[np.float32]]:
        return self._read(pairs, WantedAttention((layer,), by_head=True), run)

    def _recorded(self, pair: IdPair, run: RunContext) -> NDArray[np.float32] | None:
        """What was recorded in this run when the model wrote the translation; None: nothing was."""
        assert run.first_readings is not None
        return run.first_readings.attention(self._graphs, pair.source, pair.target)

    def _read(self, pairs: Sequence[IdPair], wanted: WantedAttention, run: RunContext) -> list[NDArray[Any]]:
        cross = encode_padded(self._graphs, [pair.source for pair in pairs], run)
        feed = cross_attention_feed(cross, np.array([len(pair.source) for pair in pairs]))
        targets = PackedTargets(pairs, self._start_id)
        feed |= targets.feed()
        with run.measure("align", rows=len(pairs), tokens=len(targets.ids)):
            found = sum(  # (B, T, S), or of each head (B, N, T, S)
                graph.run(["attention"], feed)[0] * np.float32(count / len(wanted.layers))
                for graph, count in self._graphs.attention(wanted)
            )
        assert isinstance(found, np.ndarray)  # there is a layer
        return [
            weights[..., : len(pair.target), : len(pair.source)] for weights, pair in zip(found, pairs, strict=True)
        ]
