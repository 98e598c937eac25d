"""
The heads of a causal model, over the same weights: one gives log-probabilities of given ids, one all logits.

Shapes: M rows · D width · V vocabulary.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from worker.engine.causal.native.stage import HIDDEN, States
from worker.engine.causal.protocol import LogProbs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.host_arrays import GrowingBuffer, bind_input, bind_output
from worker.engine.search.logit_rules import Floats


class ScoringHead(Protocol):
    """One lane's head for scoring."""

    def log_probs(self, hidden: States, targets: NDArray[np.int64]) -> LogProbs:
        """The log-probability of each target (M,), given the state that predicts it (M, D)."""


class LogitsHead(Protocol):
    """One lane's head for choosing the next token."""

    @property
    def buffer_stats(self) -> BufferStats: ...
    def logits(self, hidden: States) -> tuple[Floats, Floats | None]:
        """States (M, D) -> the logits of the next token (M, V), and the factor of each row (M,) by which they are to be
        multiplied, None for 1. The next call overwrites both."""


class SessionScoringHead:
    """A scoring head in this process. `session`: hidden (M, D), targets (M,) -> log_probs (M,)."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def log_probs(self, hidden: States, targets: NDArray[np.int64]) -> LogProbs:
        log_probs: LogProbs = self._session.run(["log_probs"], {HIDDEN: hidden, "targets": targets})[0]
        return log_probs


class SessionLogitsHead:
    """A head for logits in this process. `session`: hidden (M, D) -> logits (M, V), and in int8 scales (M, 1)."""

    def __init__(self, session: InferenceSession, *, on_cpu: bool) -> None:
        self._session = session
        self._on_cpu = on_cpu
        self._binding = session.io_binding()
        self._bound: Any = None  # address and shape of the last states
        self._hidden: States = np.empty((0, 0))
        self._buffers = {output.name: GrowingBuffer(np.dtype(np.float32)) for output in session.get_outputs()}
        self._outputs: dict[str, NDArray[Any]] = {}

    @property
    def buffer_stats(self) -> BufferStats:
        """The memory of the outputs. Reuse happens at every step and is not counted."""
        buffers = tuple(self._buffers.values())
        return BufferStats(sum(buffer.num_bytes for buffer in buffers), sum(buffer.allocations for buffer in buffers))

    def logits(self, hidden: States) -> tuple[Floats, Floats | None]:
        bound = hidden.ctypes.data, hidden.shape
        if self._bound != bound or not self._on_cpu:  # a GPU gets a copy when an input is bound
            self._bind(hidden)
            self._bound = bound
        self._session.run_with_iobinding(self._binding)
        scales = self._outputs.get("scales")
        return self._outputs["logits"], None if scales is None else scales[:, 0]

    def _bind(self, hidden: States) -> None:
        self._hidden = hidden  # lives as long as it is bound
        bind_input(self._binding, HIDDEN, hidden)
        for output in self._session.get_outputs():
            shape = len(hidden), int(output.shape[1])
            self._outputs[output.name] = self._buffers[output.name].lay_out(shape)
            bind_output(self._binding, output.name, self._outputs[output.name])
