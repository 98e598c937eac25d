"""
The encoder and the stages of a decoder in processes of their own: what starts them, and what their lanes call.

Knows: which file each process opens. Does not know: how arrays get there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.device import Device, providers
from worker.engine.runtime.native_session import open_native_session
from worker.engine.search.logit_rules import Ids
from worker.engine.seq2seq.native.decoder_graphs import DecoderFile, DecoderGraphs, StepKind
from worker.engine.seq2seq.native.decoder_stage import DecoderStage, Outputs, SessionDecoder
from worker.engine.stages.served_objects import Opener
from worker.engine.stages.stage_process import RemoteObject, StageProcesses
from worker.graphs.file_names import stage_graph
from worker.models.manifest import Split


@dataclass(frozen=True, slots=True)
class EncoderOpener:
    """What a process needs to open the encoder."""

    first: DecoderFile  # the stage behind it
    threads: int
    device: str

    def open(self) -> "ServedEncoder":
        """Raises ModelError where it cannot be opened."""
        file = self.first.file.with_name(stage_graph(0))
        session = open_native_session(
            file, self.first.precision, threads=self.threads, providers=providers(self.device)
        )
        return ServedEncoder(session)


@dataclass(frozen=True, slots=True)
class ServedEncoder:
    """The first object of the encoder's process."""

    session: InferenceSession

    def encode(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """ids (B, S), rows of one length -> cross-attention keys and values (B, S, 2 L, N, H)."""
        cross: NDArray[Any] = self.session.run(["cross"], {"ids": ids})[0]
        return cross


@dataclass(frozen=True, slots=True)
class DecoderOpener:
    """What a process needs to open a stage of the decoder."""

    file: DecoderFile
    threads: int
    device: str

    def open(self) -> SessionDecoder:
        """Raises ModelError where it cannot be opened."""
        device = providers(self.device)
        on_device = Device.of(device).kind != "cpu"
        return SessionDecoder(DecoderGraphs(self.file, self.threads, device, on_device))


class SeparateDecoderStages:
    """The encoder and the stages of a split decoder, each in its own process. Lanes share the processes, which start
    when a lane first needs them."""

    def __init__(self, files: Sequence[DecoderFile], threads: int, split: Split) -> None:
        encoder, *stages = split.stages
        openers: list[Opener] = [
            EncoderOpener(files[0], threads, encoder.device),
            *(DecoderOpener(file, threads, stage.device) for file, stage in zip(files, stages, strict=True)),
        ]
        self.processes = StageProcesses(files[0].file.parent.name, openers, split.memory_limit)

    @property
    def is_running(self) -> bool:
        return self.processes.are_running

    def encode(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        cross: NDArray[Any] = RemoteObject(self.processes.started()[0]).call("encode", ids)
        return cross

    encode_for_slots = encode

    def stages(self) -> Sequence[DecoderStage]:
        return [RemoteDecoder(RemoteObject(process)) for process in self.processes.started()[1:]]


@dataclass(frozen=True, slots=True)
class RemoteDecoder:
    """A `DecoderStage` that runs in another process."""

    stage: RemoteObject

    def new_lane(self) -> "RemoteDecoderLane":
        return RemoteDecoderLane(self.stage.make("new_lane"))

    def run(self, kind: str, names: Sequence[str], feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        outputs: list[NDArray[Any]] = self.stage.call("run", kind, names, feed)
        return outputs

    def num_target_ids(self) -> int:
        return int(self.stage.call("num_target_ids"))


@dataclass(frozen=True, slots=True)
class RemoteDecoderLane:
    """A `DecoderLane` whose stage runs in another process."""

    lane: RemoteObject

    @property
    def buffer_stats(self) -> BufferStats:
        return self.lane.buffer_stats

    def allocate(self, sentences: int, beams: int, positions: int, source_length: int) -> None:
        self.lane.call("allocate", sentences, beams, positions, source_length)

    def append_sources(self, cross: NDArray[Any]) -> None:
        self.lane.call("append_sources", np.ascontiguousarray(cross))

    def fill(self, present: Sequence[NDArray[Any]]) -> None:
        self.lane.call("fill", present)

    def select(self, rows: Ids) -> None:
        self.lane.call("select", rows)

    def step(self, kind: StepKind, x: NDArray[Any]) -> Outputs:
        outputs: Outputs = self.lane.call("step", kind, x)
        return outputs
