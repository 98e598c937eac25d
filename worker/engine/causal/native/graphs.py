"""
The native graphs of a causal language model, open and ready. Shared by all lanes of a process.

Knows: sessions, sizes. Does not know: which sequences are read together, buffers.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime import InferenceSession, IOBinding

from jobs.errors import ModelError
from worker.engine.causal.native.kv_cache import SequenceCache
from worker.engine.causal.native.kv_slots import SlotShape
from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.causal.protocol import LogProbs
from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.host_arrays import bind_output
from worker.engine.runtime.native_session import open_native_session
from worker.engine.search.logit_rules import Floats
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
        self._dtype = precision.float_dtype
        # Whether suffixes may share a row: a GPU's kernel takes no bias, and a window counts places of a row, not
        # positions.
        self.shares_rows = Device.of(providers).kind == "cpu" and not sizes.has_window
        self.body = self._open(BODY)
        self._scoring_head: InferenceSession | None = None
        self._logits_head: InferenceSession | None = None
        self._lock = threading.Lock()
        self._past = [f"past.{layer}.{part}" for layer in range(sizes.layers) for part in ("key", "value")]
        self._no_bias = np.zeros((1, 1, 0, 0), self._dtype)

    @property
    def num_heads(self) -> int:
        """N, to estimate the memory of attention scores."""
        return self.sizes.heads

    @property
    def slot_shape(self) -> SlotShape:
        """The sizes of keys and values."""
        return SlotShape(self.sizes.layers, self.sizes.kv_heads, self.sizes.head_size, self._dtype)

    def scoring_head(self) -> InferenceSession:
        """hidden (M, D), targets (M,) -> log_probs (M,). Raises ModelError where it cannot be opened."""
        with self._lock:
            if self._scoring_head is None:
                self._scoring_head = self._open(HEAD)
            return self._scoring_head

    def logits_head(self) -> InferenceSession:
        """hidden (M, D) -> logits (M, V), and in int8 scales (M, 1). Raises ModelError where it cannot be opened."""
        with self._lock:
            if self._logits_head is None:
                self._logits_head = self._open(HEAD, rebuild_logits(self._folder, self.sizes, self.precision))
            return self._logits_head

    def _open(self, name: str, graph: bytes | None = None) -> InferenceSession:
        """The graph in a file, or another over the same weights."""
        return open_native_session(
            self._folder / name, self.precision, threads=self._threads, providers=self._providers, graph=graph
        )

    def new_cache(self) -> SequenceCache:
        """An empty cache for the keys and values of one sequence."""
        return SequenceCache(self.sizes.layers, self.sizes.kv_heads, self.sizes.head_size, self._dtype)

    def read_from_start(self, rows: PackedRows) -> NDArray[Any]:
        """Rows of whole sequences -> hidden states (M, D)."""
        no_past = np.zeros((len(rows.ends), self.sizes.kv_heads, 0, self.sizes.head_size), self._dtype)
        feeds = self.feeds(rows) | dict.fromkeys(self._past, no_past)
        hidden: NDArray[Any] = self.body.run(["hidden"], feeds)[0]
        return hidden

    def read_after(self, cache: SequenceCache, rows: PackedRows) -> NDArray[Any]:
        """One row after the tokens in `cache` -> hidden states (M, D); its keys and values are added to the cache."""
        return self.read_into(rows, cache.bind)

    def read_into(self, rows: PackedRows, bind: Callable[[IOBinding], None]) -> NDArray[Any]:
        """Rows -> hidden states (M, D); their keys and values are written where `bind` binds past and present."""
        binding: IOBinding = self.body.io_binding()
        for name, value in self.feeds(rows).items():
            binding.bind_cpu_input(name, value)
        bind(binding)
        hidden = np.empty((rows.num_tokens, self.sizes.width), self._dtype)
        bind_output(binding, "hidden", hidden)
        self.body.run_with_iobinding(binding)
        return hidden

    def log_probs(self, hidden: NDArray[Any], targets: NDArray[np.int64]) -> LogProbs:
        """The log-probability of each target (M,), given the state that predicts it (M, D)."""
        found: LogProbs = self.scoring_head().run(["log_probs"], {"hidden": hidden, "targets": targets})[0]
        return found

    def logits(self, hidden: NDArray[Any]) -> tuple[Floats, Floats | None]:
        """States (M, D) -> the logits of the next token (M, V), and the factors of the rows (M,), if there are any."""
        logits, *scales = self.logits_head().run(None, {"hidden": hidden})
        return logits, scales[0][:, 0] if scales else None

    def feeds(self, rows: PackedRows) -> dict[str, NDArray[Any]]:
        """The inputs of the body, without the past."""
        return {
            "ids": rows.ids,
            "rows": rows.rows,
            "places": rows.places,
            "positions": rows.positions,
            "ends": rows.ends,
            "longest": rows.longest,
            "is_shared": np.array(rows.bias is not None),
            "bias": self._no_bias if rows.bias is None else self._to_dtype(rows.bias),
        }

    def _to_dtype(self, bias: NDArray[np.float32]) -> NDArray[Any]:
        """The bias in the graph's type. In float16 the lowest number masks: that of the bias is out of range."""
        if self._dtype == bias.dtype:
            return bias
        return np.maximum(bias, np.finfo(np.float16).min).astype(self._dtype)
