"""
The native graphs of a translation model, open and ready. Shared by all lanes of a process.

Knows: which stages the model has, which ids the head has. Does not know: rows, buffers, how tokens are chosen.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime import OrtValue

from jobs.errors import ModelError
from worker.engine.runtime.device import Device, Provider, providers
from worker.engine.runtime.native_session import Int8, attends_to_int8, exact_int8, open_native_session
from worker.engine.seq2seq.native.candidate_screening import CandidateScreen
from worker.engine.seq2seq.native.decoder_graphs import (
    BODY,
    EXACT_HEAD,
    HEAD,
    UNCACHED,
    DecoderFile,
    DecoderGraphs,
    attention_of,
)
from worker.engine.seq2seq.native.decoder_stage import DecoderStage, SessionDecoder
from worker.engine.seq2seq.native.kv_slots import slot_count
from worker.engine.seq2seq.native.lane_decoder import ChainedGraph, LaneDecoder
from worker.engine.seq2seq.native.separate_stages import SeparateDecoderStages
from worker.engine.seq2seq.native.target_head import TargetHead
from worker.graphs.file_names import DECODER, ENCODER, SCREENED, stage_graph
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.attention_weights import WantedAttention
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.graphs import map_head, map_head_bias, screen_bounds
from worker.graphs.seq2seq.quantized_kv import INT8
from worker.models.manifest import Split


class Seq2SeqParts(Protocol):
    """The encoder and the stages of the decoder, in this process or in others."""

    @property
    def is_running(self) -> bool:
        """False once a process of a stage has ended."""

    def encode(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """(B, S), rows of one length without padding -> cross-attention keys and values (B, S, 2 L, N, H)."""

    def encode_for_slots(self, ids: NDArray[np.int64]) -> NDArray[Any] | OrtValue:
        """As `encode`, with the result in the memory where the slots are: the host's or the device's."""

    def stages(self) -> Sequence[DecoderStage]:
        """The stages of the decoder."""


class NativeSeq2SeqGraphs:
    """The encoder and the decoders. Decoders that few jobs need are built on first use, in a second at most."""

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        head_ids: Sequence[int] | None,
        precision: Precision,
        threads: int,
        device: Sequence[Provider],
        on_device: bool,
        split: Split | None = None,
    ) -> None:
        """Open the encoder and the greedy decoder in `folder`, or the stages of them, each on its own device; raise
        ModelError now, not at the first document. Stages with processes of their own are opened when a lane first
        needs them.

        `head_ids`: the vocabulary ids that the head has, ascending; None: all. `on_device`: keep keys and values in
        the device's memory, and move them there.
        """
        network = read_network(config)
        self.head = TargetHead.of(head_ids)
        self.precision = precision
        self.encodes_on_device = on_device and split is None  # `encode_for_slots` gives a tensor in its memory
        self.attention_scale = network.decoder_heads.scale
        self.has_slots_here = split is None and not on_device  # a sentence enters at the cost of a copy on the host
        self._layers = (range(network.decoder_layers),) if split is None else split.layers(first=1)
        names = [DECODER] if split is None else [stage_graph(number + 1) for number in range(len(self._layers))]
        files = [
            DecoderFile(folder / name, config, precision, layers)
            for name, layers in zip(names, self._layers, strict=True)
        ]
        self._last = files[-1].file
        self._can_screen = not on_device and self._last.with_name(SCREENED).is_file()
        self._screen: CandidateScreen | None = None
        self._lock = threading.Lock()
        self._parts: Seq2SeqParts
        if split is not None and split.separate:
            self._parts = SeparateDecoderStages(files, threads, split)
        else:
            encoder = folder / (ENCODER if split is None else stage_graph(0))
            devices = [device] * 2 if split is None else [providers(stage.device) for stage in split.stages]
            self._parts = Seq2SeqSessionParts(encoder, files, threads, devices, on_device=self.encodes_on_device)
        # Only now: opening says more about a file that is not a graph.
        self.shape = replace(files[0].shape, num_layers=network.decoder_layers)
        # Whether a step can tell the queries of cross-attention, and the keys are on the host.
        self.tells_queries = split is None and not on_device
        if self.shape.dtype == INT8 and not attends_to_int8():
            raise ModelError(
                f"{folder} keeps keys and values in int8, and onnxruntime {onnxruntime.__version__} computes attention "
                "to them wrongly on this processor: upgrade onnxruntime, or add the model again"
            )

    @property
    def is_running(self) -> bool:
        """False once a process of a stage has ended: the graphs have to be opened again."""
        return self._parts.is_running

    @property
    def num_target_ids(self) -> int:
        """V: how many ids the head has."""
        return self._parts.stages()[-1].num_target_ids()

    def slot_count(self, beams: int) -> int:
        """How many sentences a lane decodes at a time, if the user sets no batch size."""
        return slot_count(self.shape, self.num_target_ids, beams)

    def encode(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        return self._parts.encode(ids)

    def encode_for_slots(self, ids: NDArray[np.int64]) -> NDArray[Any] | OrtValue:
        return self._parts.encode_for_slots(ids)

    def new_slots(self) -> LaneDecoder:
        """The decoder for one lane, with its own empty slots."""
        return LaneDecoder([stage.new_lane() for stage in self._parts.stages()], self._layers)

    def uncached_decoder(self) -> ChainedGraph:
        """A decoder that reads the whole prefix of every row."""
        return ChainedGraph(UNCACHED, self._parts.stages(), self._layers, "logits")

    def scoring_body(self) -> ChainedGraph:
        """The decoder's layers over all tokens of given targets."""
        return ChainedGraph(BODY, self._parts.stages(), self._layers, "hidden")

    def attention(self, wanted: WantedAttention) -> Iterator[tuple[ChainedGraph, int]]:
        """Graphs of weights of cross-attention over all tokens of given targets: for each stage that has some of the
        layers `wanted`, its graph behind the stages before it, and how many of them it has."""
        stages = self._parts.stages()
        for number, layers in enumerate(self._layers, 1):
            if own := tuple(layer for layer in wanted.layers if layer in layers):
                chained, kind = (stages[:number], self._layers[:number]), attention_of(replace(wanted, layers=own))
                yield ChainedGraph(BODY, *chained, "attention", last_kind=kind), len(own)

    def score_head(self, hidden: NDArray[Any], next_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """hidden (M, D), next_rows (M, 1) of the head -> log-probabilities (M, 1)."""
        log_probs: NDArray[np.float32]
        (log_probs,) = self._parts.stages()[-1].run(HEAD, ["log_probs"], {"hidden": hidden, "next": next_rows})
        return log_probs

    def screen(self) -> CandidateScreen | None:
        """The screen that corrects the logits of a decoder with an approximate head, for greedy search; None if the
        model has no such head, or an unusable one."""
        if not self._can_screen or exact_int8() is Int8.NEITHER:
            return None
        with self._lock:
            if self._screen is None:
                error, norm = screen_bounds(self._last.with_name(SCREENED))
                self._screen = CandidateScreen(
                    map_head(self._last), error, norm, self._exact_logits, map_head_bias(self._last)
                )
            return self._screen

    def _exact_logits(self, hidden: NDArray[np.float32]) -> NDArray[np.float32]:
        """(M, D) -> (M, V), by the head in float32."""
        logits: NDArray[np.float32]
        (logits,) = self._parts.stages()[-1].run(EXACT_HEAD, ["logits"], {"hidden": hidden})
        return logits


class Seq2SeqSessionParts:
    """`Seq2SeqParts` whose encoder and stages are all sessions of this process."""

    is_running = True

    def __init__(
        self,
        encoder: Path,
        files: Sequence[DecoderFile],
        threads: int,
        devices: Sequence[Sequence[Provider]],
        on_device: bool,
    ) -> None:
        """`devices`: of the encoder, then of each stage of the decoder. `on_device`: of a model in one piece; the keys
        and values of cross-attention of others are cut on the host."""
        self._device = Device.of(devices[0])
        self._on_device = on_device
        self._encoder = open_native_session(encoder, files[0].precision, threads=threads, providers=devices[0])
        self._stages = [
            SessionDecoder(
                DecoderGraphs(file, threads, device, on_device or (len(files) > 1 and Device.of(device).kind != "cpu"))
            )
            for file, device in zip(files, devices[1:], strict=True)
        ]

    def stages(self) -> Sequence[DecoderStage]:
        return self._stages

    def encode(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        cross: NDArray[Any] = self._encoder.run(["cross"], {"ids": ids})[0]
        return cross

    def encode_for_slots(self, ids: NDArray[np.int64]) -> NDArray[Any] | OrtValue:
        if not self._on_device:
            return self.encode(ids)
        binding = self._encoder.io_binding()
        binding.bind_cpu_input("ids", ids)
        binding.bind_output("cross", self._device.kind, self._device.number)
        binding.synchronize_inputs()
        self._encoder.run_with_iobinding(binding)
        cross: OrtValue = binding.get_outputs()[0]
        return cross
