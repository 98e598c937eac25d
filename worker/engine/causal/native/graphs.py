"""
The native graphs of a causal language model, open and ready. Shared by all lanes of a process.

Knows: sessions, sizes. Does not know: which sequences are read together, buffers.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime import IOBinding

from jobs.errors import ModelError
from worker.engine.causal.native.kv_cache import SequenceCache
from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.causal.protocol import LogProbs
from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.host_arrays import bind_output
from worker.engine.runtime.session import open_session
from worker.graphs.causal_weights import CausalSizes
from worker.graphs.file_names import BODY, HEAD
from worker.graphs.precision import Precision
from worker.models.departures.window_probe import windows_are_exact


class NativeCausalGraphs:
    """The two graphs: the body computes hidden states from tokens, the head log-probabilities from hidden states and
    the tokens that follow."""

    def __init__(
        self, folder: Path, sizes: CausalSizes, precision: Precision, threads: int, providers: Sequence[Provider]
    ) -> None:
        """Open the graphs in `folder`; raise ModelError now, not at the first document."""
        if sizes.has_window and not windows_are_exact():
            raise ModelError(
                f"{folder} has a sliding window, which onnxruntime {onnxruntime.__version__} makes one token too long: "
                "upgrade onnxruntime"
            )
        self.precision = precision
        self._sizes = sizes
        self._dtype = precision.float_dtype
        # Whether suffixes may share a row: a GPU's kernel takes no bias, and a window counts places of a row, not
        # positions.
        self.shares_rows = Device.of(providers).kind == "cpu" and not sizes.has_window
        self._body = open_session(folder / BODY, threads=threads, providers=providers)
        self._head = open_session(folder / HEAD, threads=threads, providers=providers)
        self._past = [f"past.{layer}.{part}" for layer in range(sizes.layers) for part in ("key", "value")]
        self._no_bias = np.zeros((1, 1, 0, 0), self._dtype)

    @property
    def num_heads(self) -> int:
        """N, to estimate the memory of attention scores."""
        return self._sizes.heads

    def new_cache(self) -> SequenceCache:
        """An empty cache for the keys and values of one sequence."""
        return SequenceCache(self._sizes.layers, self._sizes.kv_heads, self._sizes.head_size, self._dtype)

    def read_from_start(self, rows: PackedRows) -> NDArray[Any]:
        """Rows of whole sequences -> hidden states (M, D)."""
        no_past = np.zeros((len(rows.ends), self._sizes.kv_heads, 0, self._sizes.head_size), self._dtype)
        feeds = self._feeds(rows) | dict.fromkeys(self._past, no_past)
        hidden: NDArray[Any] = self._body.run(["hidden"], feeds)[0]
        return hidden

    def read_after(self, cache: SequenceCache, rows: PackedRows) -> NDArray[Any]:
        """One row after the tokens in `cache` -> hidden states (M, D); its keys and values are added to the cache."""
        binding: IOBinding = self._body.io_binding()
        for name, value in self._feeds(rows).items():
            binding.bind_cpu_input(name, value)
        cache.bind(binding)
        hidden = np.empty((rows.num_tokens, self._sizes.width), self._dtype)
        bind_output(binding, "hidden", hidden)
        self._body.run_with_iobinding(binding)
        return hidden

    def log_probs(self, hidden: NDArray[Any], targets: NDArray[np.int64]) -> LogProbs:
        """The log-probability of each target (M,), given the state that predicts it (M, D)."""
        found: LogProbs = self._head.run(["log_probs"], {"hidden": hidden, "targets": targets})[0]
        return found

    def _feeds(self, rows: PackedRows) -> dict[str, NDArray[Any]]:
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
