"""
The graphs of some layers of a native decoder: of all, or of a stage of a split model. Shared by all lanes of a process.

Knows: sessions, the file whose weights they share. Does not know: rows, the other stages.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from onnxruntime import InferenceSession

from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.native_session import open_native_session
from worker.engine.seq2seq.native.device_buffers import DeviceCopies
from worker.engine.seq2seq.native.device_kv_slots import DeviceKVSlots
from worker.engine.seq2seq.native.kv_slots import KVSlots, KVSlotShape, Slots
from worker.graphs.file_names import SCREENED
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.attention_weights import WantedAttention, rebuild_attention
from worker.graphs.seq2seq.families import read_network
from worker.graphs.seq2seq.graphs import cached_dtype, rebuild_decoder, rebuild_screened_decoder
from worker.graphs.seq2seq.scoring import rebuild_body, rebuild_exact_head, rebuild_head
from worker.graphs.seq2seq.uncached import rebuild_uncached

# Graphs besides the decoders with a cache.
UNCACHED, BODY, HEAD, EXACT_HEAD = "uncached", "scoring body", "scoring head", "exact head"
_ATTENTION = "attention "  # and of what


def attention_of(wanted: WantedAttention) -> str:
    """The kind of the graph with weights of cross-attention."""
    return f"{_ATTENTION}{wanted}"


@dataclass(frozen=True, slots=True)
class StepKind:
    """Which decoder makes a step."""

    beams: int  # rows of a sentence
    screened: bool = False  # with the approximate head
    queries: tuple[int, ...] = ()  # layers whose queries of cross-attention it outputs; of a whole decoder on a CPU


@dataclass(frozen=True, slots=True)
class DecoderFile:
    """A decoder, or a stage of one, on disk."""

    file: Path
    config: Mapping[str, Any]
    precision: Precision
    layers: range  # its own

    @property
    def is_last(self) -> bool:
        """Whether it has the head."""
        return self.layers.stop == read_network(self.config).decoder_layers

    @property
    def shape(self) -> KVSlotShape:
        """The sizes of its keys and values. Raises ModelError where the file is not such a graph."""
        network = read_network(self.config)
        heads = network.decoder_heads
        return KVSlotShape(len(self.layers), heads.number, heads.size, cached_dtype(self.file))


class DecoderGraphs:
    """Graphs that few jobs need are built on first use, in a second at most."""

    def __init__(self, file: DecoderFile, threads: int, providers: Sequence[Provider], on_device: bool) -> None:
        """Open the greedy decoder; raise ModelError now, not at the first document. `on_device`: keep keys and values
        in the device's memory, and move them there."""
        self._file = file
        self._threads = threads
        self._providers = providers
        self._on_device = on_device
        self._sessions: dict[StepKind | str, InferenceSession] = {}
        self._copies: DeviceCopies | None = None
        self._lock = threading.Lock()
        self.decoder(StepKind(1))

    def new_slots(self) -> Slots:
        """Empty slots for the keys and values of one lane."""
        shape = self._file.shape
        if not self._on_device:
            return KVSlots(shape)
        with self._lock:
            if self._copies is None:
                self._copies = DeviceCopies(shape, self._file.file, threads=self._threads, providers=self._providers)
        return DeviceKVSlots(shape, Device.of(self._providers), self._copies)

    def decoder(self, kind: StepKind) -> InferenceSession:
        """A decoder with a cache. On a device one graph serves every number of beams."""
        if kind.screened and self._file.is_last:
            return self._session(kind, lambda: self._open_screened(kind.queries))
        kind = StepKind(0 if self._on_device else kind.beams, queries=kind.queries)
        return self._session(kind, lambda: self._open(self._rebuild(kind)))

    def other(self, kind: str) -> InferenceSession:
        """One of UNCACHED, BODY, HEAD, EXACT_HEAD, and `attention_of` weights."""
        file, rebuild = self._file, {UNCACHED: rebuild_uncached, BODY: rebuild_body}
        if kind == HEAD:
            return self._session(kind, lambda: self._open(rebuild_head(file.file, file.config, file.precision)))
        if kind == EXACT_HEAD:
            return self._session(kind, lambda: self._open(rebuild_exact_head(file.file, file.config)))
        if kind.startswith(_ATTENTION):
            wanted = WantedAttention.of(kind.removeprefix(_ATTENTION))
            return self._session(
                kind,
                lambda: self._open(rebuild_attention(file.file, file.config, file.precision, file.layers, wanted)),
            )
        return self._session(
            kind, lambda: self._open(rebuild[kind](file.file, file.config, file.precision, file.layers))
        )

    def run(self, kind: str, names: Sequence[str], feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Run the graph `kind` and return its outputs `names`. Entries of `feed` that are no inputs of it are
        ignored."""
        session = self.other(kind)
        taken = {graph_input.name: feed[graph_input.name] for graph_input in session.get_inputs()}
        outputs: list[NDArray[Any]] = session.run(list(names), taken)
        return outputs

    def num_target_ids(self) -> int:
        (logits,) = (output for output in self.decoder(StepKind(1)).get_outputs() if output.name == "logits")
        return int(logits.shape[1])

    def _rebuild(self, kind: StepKind) -> bytes | None:
        """The serialized graph of a decoder, for any number of rows per sentence where that is 0; None: it is the file
        itself."""
        if kind == StepKind(1):
            return None
        file, layers = self._file, self._file.layers
        return rebuild_decoder(
            file.file, file.config, file.precision,
            beams=kind.beams or 1, masked=kind.beams == 0, layers=layers, queries=kind.queries,
        )  # fmt: skip

    def _open_screened(self, queries: Sequence[int]) -> InferenceSession:
        file = self._file.file.with_name(SCREENED)
        graph = rebuild_screened_decoder(file, self._file.config, queries) if queries else None
        return self._open(graph, file, Precision.INT8)

    def _session(self, kind: StepKind | str, make: Any) -> InferenceSession:
        with self._lock:
            if kind not in self._sessions:
                self._sessions[kind] = make()
            return self._sessions[kind]

    def _open(
        self, graph: bytes | None, file: Path | None = None, precision: Precision | None = None
    ) -> InferenceSession:
        """Open a serialized graph over the decoder's weights, or with None the decoder's own file."""
        return open_native_session(
            file or self._file.file,
            precision or self._file.precision,
            threads=self._threads,
            providers=self._providers,
            graph=graph,
        )
