"""
Stages of a body in processes of their own: what starts them, and what their lanes call.

Knows: which file each process opens. Does not know: how arrays get there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.native.heads import LogitsHead, ScoringHead
from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.causal.native.sessions import GraphFiles, SessionHeads
from worker.engine.causal.native.stage import SessionLane, SessionStage, StageLane, States
from worker.engine.causal.protocol import LogProbs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.device import providers
from worker.engine.search.logit_rules import Floats
from worker.engine.stages.stage_process import RemoteObject, StageProcesses
from worker.graphs.causal.families import read_sizes
from worker.graphs.file_names import stage_graph
from worker.graphs.precision import Precision
from worker.models.json_file import read_json
from worker.models.manifest import Split


@dataclass(frozen=True, slots=True)
class StageOpener:
    """What a process needs to open its stage."""

    folder: Path
    precision: Precision
    threads: int
    number: int
    num_layers: int
    device: str

    def open(self) -> "ServedStage":
        """Raises ModelError where it cannot be opened."""
        sizes = read_sizes(read_json(self.folder / "config.json"))
        files, device = GraphFiles(self.folder, sizes, self.precision, self.threads), providers(self.device)
        stage = files.open_stage(stage_graph(self.number), self.num_layers, device)
        return ServedStage(stage, SessionHeads(files, device))


class ServedStage:
    """The first object of a stage's process."""

    def __init__(self, stage: SessionStage, heads: SessionHeads) -> None:
        self._stage = stage
        self.new_scoring_head = heads.new_scoring_head
        self.new_logits_head = heads.new_logits_head

    def new_lane(self) -> SessionLane:
        return self._stage.new_lane()


class SeparateStages:
    """The stages of a split body, each in its own process. Lanes share the processes, which start when a lane first
    needs them."""

    def __init__(self, files: GraphFiles, split: Split) -> None:
        openers = [
            StageOpener(files.folder, files.precision, files.threads, number, stage.layers, stage.device)
            for number, stage in enumerate(split.stages)
        ]
        self.processes = StageProcesses(files.folder.name, openers, split.memory_limit)

    @property
    def is_running(self) -> bool:
        return self.processes.are_running

    def new_stage_lanes(self) -> list[StageLane]:
        return [RemoteLane(RemoteObject(process).make("new_lane")) for process in self.processes.started()]

    def new_scoring_head(self) -> ScoringHead:
        return RemoteScoringHead(RemoteObject(self.processes.started()[-1]).make("new_scoring_head"))

    def new_logits_head(self) -> LogitsHead:
        return RemoteLogitsHead(RemoteObject(self.processes.started()[-1]).make("new_logits_head"))


class RemoteLane:
    """A `StageLane` whose stage runs in another process."""

    def __init__(self, lane: RemoteObject) -> None:
        self._lane = lane

    @property
    def buffer_stats(self) -> BufferStats:
        return self._lane.buffer_stats

    def begin_sequence(self, positions: int) -> None:
        self._lane.call("begin_sequence", positions)

    def begin_slots(self, slots: int, capacity: int) -> None:
        self._lane.call("begin_slots", slots, capacity)

    def grow_slots(self, capacity: int, rows: int, longest: int) -> None:
        self._lane.call("grow_slots", capacity, rows, longest)

    def take(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        self._lane.call("take", rows)

    def move(self, moves: Sequence[tuple[int, int, int]]) -> None:
        self._lane.call("move", moves)

    def read_from_start(self, rows: PackedRows, residual: States | None) -> States:
        return self._read("read_from_start", rows, residual)

    def read_sequence(self, rows: PackedRows, residual: States | None) -> States:
        return self._read("read_sequence", rows, residual)

    def read_slots(self, rows: PackedRows, first: int, residual: States | None) -> States:
        return self._read("read_slots", rows, first, residual)

    def step(self, ids: NDArray[np.int64], lengths: NDArray[np.int32], residual: States | None) -> States:
        return self._read("step", ids, lengths, residual)

    def _read(self, method: str, *arguments: Any) -> States:
        states: States = self._lane.call(method, *arguments)
        return states


class RemoteScoringHead:
    """The scoring head, in the process of the last stage."""

    def __init__(self, head: RemoteObject) -> None:
        self._head = head

    def log_probs(self, hidden: States, targets: NDArray[np.int64]) -> LogProbs:
        log_probs: LogProbs = self._head.call("log_probs", hidden, targets)
        return log_probs


class RemoteLogitsHead:
    """The head for logits, in the process of the last stage."""

    def __init__(self, head: RemoteObject) -> None:
        self._head = head

    @property
    def buffer_stats(self) -> BufferStats:
        return self._head.buffer_stats

    def logits(self, hidden: States) -> tuple[Floats, Floats | None]:
        logits: tuple[Floats, Floats | None] = self._head.call("logits", hidden)
        return logits
