"""
The calls of native graphs, timed, and how large one may be.

Knows: a lane's body and head, and that a run may be stopped between two calls. Does not know: which sequences are read
together.

Shapes: M tokens · D width · P past length · S length of a row · N heads.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.native.heads import ScoringHead
from worker.engine.causal.native.lane_body import BodyCall, LaneBody
from worker.engine.causal.native.packed_rows import PackedRows
from worker.engine.causal.protocol import LogProbs
from worker.engine.runtime.run_context import RunContext
from worker.graphs.causal.attention import SHARED_ROOM


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The largest sizes of one call."""

    # Of the body. Qwen2.5-0.5B's sizes, one thread, rows of 256: int8 2.6 to 3.0 ms a token and fp32 8.3 to 8.5,
    # whether 256, 512 or 1,024 at once, so what matters is memory.
    tokens: int = 512
    padded: int = 1024  # tokens of the body, with the padding that its attention sees
    head_rows: int = 256  # int8 0.91 ms a row, and 1.02 where there are 64; fp32 2.7 and 3.0
    scores: int = 2**24  # of attention with a bias, which holds all of them at once: 64 MB

    def max_suffix_tokens(self, past: int, num_heads: int) -> int:
        """How many tokens of suffixes may follow `past` in one row: S with N x S x (P + S) scores within the limit."""
        scores = self.scores / num_heads
        most = (past**2 / 4 + scores) ** 0.5 - past / 2
        return max(1, min(SHARED_ROOM, self.tokens, int(most)))


LIMITS = CallLimits()


class TimedCalls:
    """The calls of one run, timed; between two of them the run may be stopped."""

    def __init__(self, body: LaneBody, head: ScoringHead, limits: CallLimits, run: RunContext) -> None:
        self.body = body
        self._head = head
        self._limits = limits
        self._run = run

    def read_from_start(self, rows: PackedRows) -> NDArray[Any]:
        self._raise_if_stopped()
        return self.body.read_from_start(rows, BodyCall(self._run))

    def read_sequence(self, rows: PackedRows, past: int) -> NDArray[Any]:
        self._raise_if_stopped()
        return self.body.read_sequence(rows, BodyCall(self._run, past=past))

    def log_probs(self, hidden: NDArray[Any], targets: NDArray[np.int64]) -> LogProbs:
        """The log-probability of each target, computed in calls of about equally many rows."""
        count = -(-len(targets) // self._limits.head_rows)
        parts = []
        for states, ids in zip(np.array_split(hidden, count), np.array_split(targets, count), strict=True):
            self._raise_if_stopped()
            with self._run.measure("head", rows=len(ids), tokens=len(ids)):
                parts.append(self._head.log_probs(states, ids))
        return np.concatenate(parts)

    def _raise_if_stopped(self) -> None:
        self._run.raise_if_stopped("calls of the model")
