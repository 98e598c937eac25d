"""
The native graphs of a causal language model, open and ready. Shared by all lanes of a process.

Knows: sessions, sizes. Does not know: which sequences are read together, buffers.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

import onnxruntime
from onnxruntime import InferenceSession

from jobs.errors import ModelError
from worker.engine.causal.native.heads import LogitsHead, ScoringHead, SessionLogitsHead, SessionScoringHead
from worker.engine.causal.native.lane_body import LaneBody
from worker.engine.causal.native.slot_memory import SlotShape
from worker.engine.causal.native.stage import SessionStage
from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.native_session import open_native_session
from worker.graphs.causal_head import rebuild_logits
from worker.graphs.causal_weights import CausalSizes
from worker.graphs.file_names import BODY, HEAD
from worker.graphs.precision import Precision
from worker.models.departures.window_probe import windows_are_exact


class NativeCausalGraphs:
    """The body computes hidden states from tokens, the head log-probabilities from hidden states and the tokens that
    follow; another head, over the same weights, computes logits. Heads are opened when a lane first needs them: a job
    needs one of them, and onnxruntime copies the weights of each."""

    def __init__(
        self, folder: Path, sizes: CausalSizes, precision: Precision, threads: int, providers: Sequence[Provider]
    ) -> None:
        """Open the body in `folder`; raise ModelError now, not at the first document."""
        if sizes.has_window and not windows_are_exact():
            raise ModelError(
                f"{folder} has a sliding window, which onnxruntime {onnxruntime.__version__} makes one token too long: "
                "upgrade onnxruntime"
            )
        self.precision = precision
        self.sizes = sizes
        self._folder = folder
        self._threads = threads
        self._providers = providers
        # Whether suffixes may share a row: a GPU's kernel takes no bias, and a window counts places of a row, not
        # positions.
        on_cpu = Device.of(providers).kind == "cpu"
        self.shares_rows = on_cpu and not sizes.has_window
        self._stage = SessionStage(self._open(BODY), self.slot_shape, sizes.width, on_cpu)
        self._scoring_head: InferenceSession | None = None
        self._logits_head: InferenceSession | None = None
        self._lock = threading.Lock()

    @property
    def num_heads(self) -> int:
        """N, to estimate the memory of attention scores."""
        return self.sizes.heads

    @property
    def slot_shape(self) -> SlotShape:
        """The sizes of keys and values."""
        return SlotShape(self.sizes.layers, self.sizes.kv_heads, self.sizes.head_size, self.precision.float_dtype)

    def new_body(self) -> LaneBody:
        """The body for one lane, with its own keys and values."""
        return LaneBody([self._stage.new_lane()])

    def new_scoring_head(self) -> ScoringHead:
        """The head for one lane that scores. Raises ModelError where it cannot be opened."""
        with self._lock:
            if self._scoring_head is None:
                self._scoring_head = self._open(HEAD)
            return SessionScoringHead(self._scoring_head)

    def new_logits_head(self) -> LogitsHead:
        """The head for one lane that continues prompts. Raises ModelError where it cannot be opened."""
        with self._lock:
            if self._logits_head is None:
                self._logits_head = self._open(HEAD, rebuild_logits(self._folder, self.sizes, self.precision))
            return SessionLogitsHead(self._logits_head, on_cpu=self._stage.on_cpu)

    def _open(self, name: str, graph: bytes | None = None) -> InferenceSession:
        """The graph in a file, or another over the same weights."""
        return open_native_session(
            self._folder / name, self.precision, threads=self._threads, providers=self._providers, graph=graph
        )
