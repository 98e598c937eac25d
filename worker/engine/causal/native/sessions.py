"""
The sessions of native causal graphs: stages of the body, and the heads.

Knows: files. Does not know: lanes, in which process this is.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxruntime import InferenceSession

from worker.engine.causal.native.heads import SessionLogitsHead, SessionScoringHead
from worker.engine.causal.native.row_table import with_row_table
from worker.engine.causal.native.slot_memory import SlotShape
from worker.engine.causal.native.stage import SessionStage
from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.native_session import open_native_session
from worker.graphs.causal.head import rebuild_head, rebuild_logits
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.file_names import HEAD
from worker.graphs.precision import Precision


@dataclass(frozen=True, slots=True)
class GraphFiles:
    """The graphs of one model."""

    folder: Path
    sizes: CausalSizes
    precision: Precision
    threads: int  # of one call

    def open(self, name: str, providers: Sequence[Provider], graph: bytes | None = None) -> InferenceSession:
        """The graph in a file, or another over the same weights. Raises ModelError where it cannot be opened."""
        return open_native_session(
            self.folder / name, self.precision, threads=self.threads, providers=providers, graph=graph
        )

    def open_stage(self, name: str, num_layers: int, providers: Sequence[Provider]) -> SessionStage:
        """A stage of the body, or the whole body. Raises ModelError where it cannot be opened."""
        on_cpu = Device.of(providers).kind == "cpu"
        in_float32 = on_cpu and self.precision is Precision.FP32
        graph, table = with_row_table(self.folder / name) if in_float32 else (None, None)
        session = self.open(name, providers, graph)
        return SessionStage(session, self.slot_shape(num_layers), self.sizes.width, on_cpu, table)

    def slot_shape(self, num_layers: int) -> SlotShape:
        """The sizes of the keys and values of `num_layers` layers."""
        return SlotShape(num_layers, self.sizes.kv_heads, self.sizes.head_size, self.precision.float_dtype)


class SessionHeads:
    """The two heads over the same weights: one computes log-probabilities of given tokens, the other all logits. Each
    is opened when a lane first needs it: a job needs one of them, and onnxruntime copies the weights of each."""

    def __init__(self, files: GraphFiles, providers: Sequence[Provider]) -> None:
        self._files = files
        self._providers = providers
        self._scoring: InferenceSession | None = None
        self._logits: InferenceSession | None = None
        self._lock = threading.Lock()

    def new_scoring_head(self) -> SessionScoringHead:
        files = self._files
        with self._lock:
            if self._scoring is None:
                graph = rebuild_head(files.folder, files.sizes, files.precision)
                self._scoring = files.open(HEAD, self._providers, graph)
            return SessionScoringHead(self._scoring)

    def new_logits_head(self) -> SessionLogitsHead:
        files = self._files
        with self._lock:
            if self._logits is None:
                graph = rebuild_logits(files.folder, files.sizes, files.precision)
                self._logits = files.open(HEAD, self._providers, graph)
            return SessionLogitsHead(self._logits, on_cpu=Device.of(self._providers).kind == "cpu")
