"""
The native graphs of a translation model, open and ready. Shared by all lanes of a process.

Knows: sessions, sizes, which ids the head has. Does not know: rows, buffers, how tokens are chosen.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession, OrtValue

from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.int8_probe import Int8, exact_int8
from worker.engine.runtime.native_session import open_native_session
from worker.engine.seq2seq.native.candidate_screening import CandidateScreen
from worker.engine.seq2seq.native.device_buffers import DeviceCopies
from worker.engine.seq2seq.native.device_kv_slots import DeviceKVSlots
from worker.engine.seq2seq.native.kv_slots import KVSlots, Slots, SlotShape
from worker.engine.seq2seq.native.target_head import TargetHead
from worker.graphs.file_names import DECODER, ENCODER, SCREENED
from worker.graphs.marian import map_head, rebuild_decoder
from worker.graphs.marian_scoring import rebuild_scoring
from worker.graphs.marian_uncached import rebuild_uncached
from worker.graphs.marian_weights import MarianSizes
from worker.graphs.precision import Precision


class NativeSeq2SeqGraphs:
    """The encoder and the decoders. Decoders that few jobs need are built on first use, in a second at most."""

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

        `head_ids`: the vocabulary ids that the head has, ascending; None: all. `on_device`: keep keys and values in
        the device's memory, and move them there.
        """
        sizes = MarianSizes.read(config)
        self.head = TargetHead.of(head_ids)
        self.precision = precision
        self.shape = SlotShape(sizes.decoder_layers, sizes.heads, sizes.head_size, precision.float_dtype)
        self._folder = folder
        self._config = config
        self._threads = threads
        self._providers = providers
        self._device = Device.of(providers)
        self._on_device = on_device
        self._encoder = open_native_session(folder / ENCODER, precision, threads=threads, providers=providers)
        self._decoders: dict[int, InferenceSession] = {}  # by number of beams
        self._copies: DeviceCopies | None = None
        self._uncached_decoder: InferenceSession | None = None
        self._scoring: tuple[InferenceSession, InferenceSession] | None = None
        self._screened: tuple[InferenceSession, CandidateScreen] | None = None
        self._lock = threading.Lock()
        outputs = {output.name: output.shape for output in self.decoder(1).get_outputs()}
        self.num_target_ids = int(outputs["logits"][1])  # V

    def encode(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """(B, S), rows of one length without padding -> cross-attention keys and values (B, S, 2 L, N, H)."""
        cross: NDArray[Any] = self._encoder.run(["cross"], {"ids": ids})[0]
        return cross

    def encode_for_slots(self, ids: NDArray[np.int64]) -> NDArray[Any] | OrtValue:
        """As `encode`, with the result in the memory where the slots are: the host's or the device's."""
        if not self._on_device:
            return self.encode(ids)
        binding = self._encoder.io_binding()
        binding.bind_cpu_input("ids", ids)
        binding.bind_output("cross", self._device.kind, self._device.number)
        binding.synchronize_inputs()
        self._encoder.run_with_iobinding(binding)
        cross: OrtValue = binding.get_outputs()[0]
        return cross

    def new_slots(self) -> Slots:
        """Empty slots for the keys and values of one lane."""
        if not self._on_device:
            return KVSlots(self.shape)
        with self._lock:
            if self._copies is None:
                file = self._folder / DECODER
                self._copies = DeviceCopies(self.shape, file, threads=self._threads, providers=self._providers)
        return DeviceKVSlots(self.shape, self._device, self._copies)

    def decoder(self, beams: int) -> InferenceSession:
        """A decoder with a cache, for rows in groups of `beams`."""
        beams = 0 if self._on_device else beams  # one graph serves every number
        with self._lock:
            if beams not in self._decoders:
                graph = None
                if beams != 1:
                    graph = rebuild_decoder(
                        self._folder, self._config, self.precision, beams=beams or 1, masked=self._on_device
                    )
                self._decoders[beams] = self._open(graph)
            return self._decoders[beams]

    def uncached_decoder(self) -> InferenceSession:
        """A decoder that reads the whole prefix of every row."""
        with self._lock:
            if self._uncached_decoder is None:
                self._uncached_decoder = self._open(rebuild_uncached(self._folder, self._config, self.precision))
            return self._uncached_decoder

    def scoring_sessions(self) -> tuple[InferenceSession, InferenceSession]:
        """The body and the head that score given targets."""
        with self._lock:
            if self._scoring is None:
                body, head = rebuild_scoring(self._folder, self._config, self.precision)
                self._scoring = self._open(body), self._open(head)
            return self._scoring

    def screened_decoder(self) -> tuple[InferenceSession, CandidateScreen] | None:
        """A decoder for greedy search with an approximate head, and the screen that corrects it; None if unusable."""
        file = self._folder / SCREENED
        has_int8 = exact_int8() is not Int8.NEITHER
        with self._lock:
            if self._screened is None and file.is_file() and not self._on_device and has_int8:
                session = open_native_session(file, Precision.INT8, threads=self._threads, providers=self._providers)
                metadata = session.get_modelmeta().custom_metadata_map
                error, norm = float(metadata["screen_error"]), float(metadata["screen_norm"])
                self._screened = session, CandidateScreen(map_head(self._folder), error, norm)
            return self._screened

    def _open(self, graph: bytes | None) -> InferenceSession:
        """Open a graph over the decoder's weights; None: the decoder file itself."""
        file = self._folder / DECODER
        return open_native_session(file, self.precision, threads=self._threads, providers=self._providers, graph=graph)
