"""
The native graphs of a causal language model, open and ready. Shared by all lanes of a process.

Knows: which stages the body has, and where they run. Does not know: which sequences are read together, buffers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import onnxruntime

from jobs.errors import ModelError
from worker.engine.causal.native.heads import LogitsHead, ScoringHead
from worker.engine.causal.native.lane_body import LaneBody
from worker.engine.causal.native.separate_stages import SeparateStages
from worker.engine.causal.native.sessions import GraphFiles, SessionHeads
from worker.engine.causal.native.slot_memory import SlotShape
from worker.engine.causal.native.stage import SessionStage, StageLane
from worker.engine.runtime.device import Device, Provider, providers
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.file_names import BODY, stage_graph
from worker.graphs.precision import Precision
from worker.models.departures.window_probe import windows_are_exact
from worker.models.manifest import Split


class CausalParts(Protocol):
    """The stages of the body and the heads, in this process or in others."""

    @property
    def is_running(self) -> bool:
        """False once a process of a stage has ended."""

    def new_stage_lanes(self) -> list[StageLane]:
        """One lane's part of each stage, in the order of the layers."""

    def new_scoring_head(self) -> ScoringHead: ...
    def new_logits_head(self) -> LogitsHead: ...


class SessionParts:
    """`CausalParts` whose stages and heads are all sessions of this process."""

    is_running = True

    def __init__(self, stages: Sequence[SessionStage], heads: SessionHeads) -> None:
        self._stages = stages
        self.new_scoring_head = heads.new_scoring_head
        self.new_logits_head = heads.new_logits_head

    def new_stage_lanes(self) -> list[StageLane]:
        return [stage.new_lane() for stage in self._stages]


@dataclass(frozen=True, slots=True)
class NativeCausalGraphs:
    """The body computes hidden states from tokens. The scoring head computes log-probabilities from hidden states and
    the tokens that follow; the logits head, over the same weights, computes logits."""

    sizes: CausalSizes
    precision: Precision
    slot_shape: SlotShape  # of all layers
    # Whether suffixes of one prefix may share a row: not on a GPU, whose kernel takes no bias, nor with a sliding
    # window, which counts columns of the row instead of positions of the text.
    shares_rows: bool
    _parts: CausalParts

    @classmethod
    def open(
        cls,
        folder: Path,
        sizes: CausalSizes,
        precision: Precision,
        threads: int,
        device: Sequence[Provider],
        split: Split | None = None,
    ) -> Self:
        """Open the body in `folder`, or its stages, each on its own device; raise ModelError now, not at the first
        document. Stages with processes of their own are opened when a lane first needs them."""
        if sizes.has_window and not windows_are_exact():
            raise ModelError(
                f"{folder} has a sliding window, which onnxruntime {onnxruntime.__version__} makes one token too long: "
                "upgrade onnxruntime"
            )
        files = GraphFiles(folder, sizes, precision, threads)
        devices = [device] if split is None else [providers(stage.device) for stage in split.stages]
        parts: CausalParts
        if split is not None and split.separate:
            parts = SeparateStages(files, split)
        else:
            layers = (range(sizes.layers),) if split is None else split.layers()
            names = [BODY] if split is None else [stage_graph(number) for number in range(len(layers))]
            stages = [files.open_stage(*stage) for stage in zip(names, map(len, layers), devices, strict=True)]
            parts = SessionParts(stages, SessionHeads(files, devices[-1]))
        on_cpu = all(Device.of(device).kind == "cpu" for device in devices)
        shape = files.slot_shape(sizes.layers)
        return cls(sizes, precision, shape, on_cpu and not sizes.has_window, parts)

    @property
    def num_heads(self) -> int:
        """N, to estimate the memory of attention scores."""
        return self.sizes.heads

    @property
    def is_running(self) -> bool:
        """False once a process of a stage has ended: the graphs have to be opened again."""
        return self._parts.is_running

    def new_body(self) -> LaneBody:
        """The body for one lane, with its own keys and values."""
        return LaneBody(self._parts.new_stage_lanes())

    def new_scoring_head(self) -> ScoringHead:
        """The head for one lane that scores. Raises ModelError where it cannot be opened."""
        return self._parts.new_scoring_head()

    def new_logits_head(self) -> LogitsHead:
        """The head for one lane that continues prompts. Raises ModelError where it cannot be opened."""
        return self._parts.new_logits_head()
