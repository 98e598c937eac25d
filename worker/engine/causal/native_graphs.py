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
from worker.engine.causal.kv_cache import SequenceCache
from worker.engine.causal.packed_rows import PackedRows
from worker.engine.causal.protocol import LogProbs
from worker.engine.runtime.device import Device, Provider
from worker.engine.runtime.host_arrays import bind_output
from worker.engine.runtime.native_precision import float_dtype
from worker.engine.runtime.session import open_session
from worker.graphs.causal_weights import CausalSizes
from worker.graphs.file_names import BODY, HEAD
from worker.graphs.precision import Precision
from worker.models.departures.window_probe import windows_are_exact


class NativeCausalGraphs:
    """A body, which reads tokens, and a head, which says how likely each next one was."""

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
        self._dtype = float_dtype(precision)
        # A GPU's kernel takes no bias. A window is counted in places of a row, and not in positions.
        self.shares_rows = Device.of(providers).kind == "cpu" and not sizes.has_window
        self._body = open_session(folder / BODY, threads=threads, providers=providers)
        self._head = open_session(folder / HEAD, threads=threads, providers=providers)
        self._past = [f"past.{layer}.{part}" for layer in range(sizes.layers) for part in ("key", "value")]
        self._no_bias = np.zeros((1, 1, 0, 0), self._dtype)

    @property
    def num_heads(self) -> int:
        """N, to reckon what scores of attention take."""
        return self._sizes.heads

    def new_cache(self) -> SequenceCache:
        """Room for keys and values of one sequence."""
        return SequenceCache(self._sizes.layers, self._sizes.kv_heads, self._sizes.head_size, self._dtype)

    def read_fresh(self, rows: PackedRows) -> NDArray[Any]:
        """Rows that begin sequences -> hidden states (M, D)."""
        nothing = np.zeros((len(rows.ends), self._sizes.kv_heads, 0, self._sizes.head_size), self._dtype)
        feeds = self._feeds(rows) | dict.fromkeys(self._past, nothing)
        hidden: NDArray[Any] = self._body.run(["hidden"], feeds)[0]
        return hidden

    def read_behind(self, cache: SequenceCache, rows: PackedRows) -> NDArray[Any]:
        """One row behind what `cache` holds -> hidden states (M, D); what it holds grows by the row."""
        binding: IOBinding = self._body.io_binding()
        for name, value in self._feeds(rows).items():
            binding.bind_cpu_input(name, value)
        cache.bind(binding)
        hidden = np.empty((rows.num_tokens, self._sizes.width), self._dtype)
        bind_output(binding, "hidden", hidden)
        self._body.run_with_iobinding(binding)
        return hidden

    def log_probs(self, hidden: NDArray[Any], targets: NDArray[np.int64]) -> LogProbs:
        """Of each target (M,), after the state before it (M, D)."""
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
            "bias": self._no_bias if rows.bias is None else self._in_range(rows.bias),
        }

    def _in_range(self, bias: NDArray[np.float32]) -> NDArray[Any]:
        """What hides a place is beyond the numbers that float16 has."""
        if self._dtype == bias.dtype:
            return bias
        return np.maximum(bias, np.finfo(np.float16).min).astype(self._dtype)
