"""
The native graphs of a translation model, open and ready. Shared by all lanes of a process.

Knows: sessions, sizes, what the manifest says of the head. Does not know: rows, buffers, how tokens are chosen.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime import OrtValue

from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.int8_probe import int8_is_exact
from worker.engine.runtime.native_precision import float_dtype
from worker.engine.runtime.session import open_session
from worker.engine.seq2seq.candidate_screening import CandidateScreen
from worker.engine.seq2seq.device_buffers import DeviceCopies
from worker.engine.seq2seq.device_kv_slots import DeviceKVSlots
from worker.engine.seq2seq.kv_slots import KVSlots, SlotShape
from worker.engine.seq2seq.target_head import TargetHead
from worker.graphs.file_names import DECODER, ENCODER, SCREENED
from worker.graphs.marian import map_head, rebuild_decoder
from worker.graphs.marian_scoring import rebuild_scoring
from worker.graphs.marian_uncached import rebuild_uncached
from worker.graphs.marian_weights import MarianSizes
from worker.graphs.precision import Precision


class NativeSeq2SeqGraphs:
    """An encoder, and a decoder for each number of beams that was asked for."""

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        head_ids: Sequence[int] | None,
        precision: Precision,
        threads: int,
        providers: Sequence[Provider],
        on_device: bool,
    ) -> None:
        """Open the encoder and the greedy decoder in `folder`; raise ModelError now, not at the first document.

        `on_device`: keep keys and values in memory of the device, and move them there.
        """
        sizes = MarianSizes.read(config)
        self.head = TargetHead.of(head_ids)
        self.precision = precision
        self.shape = SlotShape(sizes.decoder_layers, sizes.heads, sizes.head_size, float_dtype(precision))
        self._folder = folder
        self._config = config
        self._threads = threads
        self._providers = providers
        self._device = Device.of(providers)
        self._on_device = on_device
        self._encoder = open_session(folder / ENCODER, threads=threads, providers=providers)
        self._decoders: dict[int, onnxruntime.InferenceSession] = {}
        self._moves: DeviceCopies | None = None
        self._prefix_decoder: onnxruntime.InferenceSession | None = None
        self._forced: tuple[onnxruntime.InferenceSession, onnxruntime.InferenceSession] | None = None
        self._screened: tuple[onnxruntime.InferenceSession, CandidateScreen] | None = None
        self._lock = threading.Lock()
        outputs = {output.name: output.shape for output in self.decoder(1).get_outputs()}
        self.head_size = int(outputs["logits"][1])  # V

    def encode(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """(B, S), rows without padding -> cross-attention keys and values (B, S, 2 L, N, H)."""
        cross: NDArray[Any] = self._encoder.run(["cross"], {"ids": ids})[0]
        return cross

    def encode_for_slots(self, ids: NDArray[np.int64]) -> NDArray[Any] | OrtValue:
        """The same, in the memory that `new_slots` are in."""
        if not self._on_device:
            return self.encode(ids)
        binding = self._encoder.io_binding()
        binding.bind_cpu_input("ids", ids)
        binding.bind_output("cross", self._device.kind, self._device.number)
        binding.synchronize_inputs()
        self._encoder.run_with_iobinding(binding)
        cross: OrtValue = binding.get_outputs()[0]
        return cross

    def new_slots(self) -> KVSlots | DeviceKVSlots:
        """The keys and values of one lane."""
        if not self._on_device:
            return KVSlots(self.shape)
        with self._lock:
            if self._moves is None:
                file = self._folder / DECODER
                self._moves = DeviceCopies(self.shape, file, threads=self._threads, providers=self._providers)
        return DeviceKVSlots(self.shape, self._device, self._moves)

    def decoder(self, beams: int) -> onnxruntime.InferenceSession:
        """For rows in groups of `beams`; each is built when it is first asked for, which takes a second at most."""
        beams = 0 if self._on_device else beams  # one graph serves all
        with self._lock:
            if beams not in self._decoders:
                graph = None
                if beams != 1:
                    graph = rebuild_decoder(
                        self._folder, self._config, self.precision, beams=beams or 1, masked=self._on_device
                    )
                self._decoders[beams] = open_session(
                    self._folder / DECODER, threads=self._threads, providers=self._providers, graph=graph
                )
            return self._decoders[beams]

    def prefix_decoder(self) -> onnxruntime.InferenceSession:
        """Without a cache; built when it is first asked for."""
        with self._lock:
            if self._prefix_decoder is None:
                graph = rebuild_uncached(self._folder, self._config, self.precision)
                self._prefix_decoder = open_session(
                    self._folder / DECODER, threads=self._threads, providers=self._providers, graph=graph
                )
            return self._prefix_decoder

    def forced(self) -> tuple[onnxruntime.InferenceSession, onnxruntime.InferenceSession]:
        """Body and head that score given translations; built when they are first asked for."""
        with self._lock:
            if self._forced is None:
                body, head = (
                    open_session(self._folder / DECODER, threads=self._threads, providers=self._providers, graph=graph)
                    for graph in rebuild_scoring(self._folder, self._config, self.precision)
                )
                self._forced = body, head
            return self._forced

    def screened(self) -> tuple[onnxruntime.InferenceSession, CandidateScreen] | None:
        """A decoder for greedy search whose head looks for candidates alone, where the model has one."""
        file = self._folder / SCREENED
        with self._lock:
            if self._screened is None and file.is_file() and not self._on_device and int8_is_exact():
                session = open_session(file, threads=self._threads, providers=self._providers)
                said = session.get_modelmeta().custom_metadata_map
                head = map_head(self._folder)
                self._screened = session, CandidateScreen(head, float(said["screen_error"]), float(said["screen_norm"]))
            return self._screened
