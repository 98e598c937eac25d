"""
The decoder of a model as one lane uses it: steps go through its stages one after the other, and every stage carries out
what happens to rows.

Knows: stages, which layers each has. Does not know: sessions, sentences, how a token is chosen.

Shapes: R rows, `beams` per sentence · m sentences · S source length · L layers · N heads · H head size · T tokens of a
row.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.logit_rules import Ids
from worker.engine.seq2seq.native.decoder_graphs import StepKind
from worker.engine.seq2seq.native.decoder_stage import NEXT_RESIDUAL, RESIDUAL, DecoderLane, DecoderStage, Outputs


class LaneDecoder:
    """One lane's stages: their slots, and the steps through them."""

    def __init__(self, stages: Sequence[DecoderLane], layers: Sequence[range]) -> None:
        """`layers`: the layers of each stage, counted in the whole decoder."""
        self._stages = stages
        self._layers = layers
        self._beams = 1
        self._positions = np.zeros(0, np.int32)  # (R,): tokens that are cached, of the running rows

    @property
    def buffer_stats(self) -> BufferStats:
        return sum((stage.buffer_stats for stage in self._stages), BufferStats())

    @property
    def longest(self) -> int:
        return int(self._positions.max(initial=0))

    def allocate(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        self._beams, self._positions = beams, np.zeros(0, np.int32)
        for stage in self._stages:
            stage.allocate(sentences, beams, positions, source_length)

    def append(self, cross: Any) -> None:
        if len(self._stages) == 1:
            self._stages[0].append_sources(cross)
        else:
            for stage, layers in zip(self._stages, self._layers, strict=True):
                stage.append_sources(cross[:, :, 2 * layers.start : 2 * layers.stop])
        rows = np.zeros(_num_sentences(cross) * self._beams, np.int32)
        self._positions = np.concatenate((self._positions, rows))

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        for stage, layers in zip(self._stages, self._layers, strict=True):
            stage.fill(present[2 * layers.start : 2 * layers.stop])
        self._positions[:] = present[0].shape[2]

    def select(self, rows: Ids) -> None:
        for stage in self._stages:
            stage.select(rows)
        self._positions = self._positions[rows]

    def step(self, kind: StepKind, ids: Ids, context: RunContext, number: int) -> Outputs:
        """Append one id (R,) to each row and return the outputs of the last stage. Timed as a whole, and in a split
        model stage by stage too."""
        counts = {"step": number, "rows": len(ids), "tokens": len(ids), "past_length": self.longest}
        x: NDArray[Any] = ids
        with context.measure("decode", **counts):
            for index, stage in enumerate(self._stages):
                timed = context.measure(f"stage.{index + 1}", **counts) if len(self._stages) > 1 else nullcontext()
                with timed:
                    outputs = stage.step(kind, x)
                if index + 1 < len(self._stages):
                    x = outputs[NEXT_RESIDUAL]
        self._positions += 1
        return outputs


@dataclass(frozen=True, slots=True)
class _Output:
    """The output of a graph."""

    name: str


class ChainedGraph:
    """A graph without a cache that is split into stages, in place of a session: the stages run one after the other.
    Layers are numbered as in the whole model."""

    def __init__(
        self,
        kind: str,
        stages: Sequence[DecoderStage],
        layers: Sequence[range],
        last: str,
        *,
        last_kind: str | None = None,
    ) -> None:
        """`last`: the output of the last stage, `last_kind`: the kind of its graph, where it is another."""
        self._kind, self._last_kind = kind, last_kind or kind
        self._stages = stages
        self._layers = layers
        self._last = last

    def get_outputs(self) -> list[_Output]:
        """The outputs, as a session's method of this name; they include the keys and values of all layers."""
        layers = range(self._layers[-1].stop)
        present = [_Output(f"present.{layer}.{part}") for layer in layers for part in ("key", "value")]
        return [_Output(self._last), *present]

    def run(self, names: Sequence[str], feed: Mapping[str, Any]) -> list[NDArray[Any]]:
        """Run all stages and return the outputs `names`, as a session's method of this name."""
        outputs: dict[str, NDArray[Any]] = {}
        shared = {name: value for name, value in feed.items() if not name.startswith("cross.")}
        for stage, layers in zip(self._stages, self._layers, strict=True):
            own = {
                f"cross.{cached}.{part}": feed[f"cross.{layer}.{part}"]
                for cached, layer in enumerate(layers)
                for part in ("key", "value")
            }
            is_last = stage is self._stages[-1]
            gives = self._last if is_last else NEXT_RESIDUAL
            present = {
                f"present.{cached}.{part}": name
                for cached, layer in enumerate(layers)
                for part in ("key", "value")
                if (name := f"present.{layer}.{part}") in names
            }
            x, *kept = stage.run(self._last_kind if is_last else self._kind, [gives, *present], shared | own)
            outputs |= dict(zip(present.values(), kept, strict=True)) | ({self._last: x} if is_last else {})
            shared = shared | {RESIDUAL: x}
        return [outputs[name] for name in names]


def _num_sentences(cross: Any) -> int:
    """m: the number of sentences in an array, or in a tensor on a device."""
    return len(cross) if isinstance(cross, np.ndarray) else int(cross.shape()[0])
