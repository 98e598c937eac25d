"""
log p(target) = logit - log Σ exp(logits), in natural logarithms and float32, whatever the logits are.

Shapes: R rows, one a scored token · V vocabulary.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.protocol import LogProbs

SLICE_FLOATS = 1 << 18  # 1 MB of exponentials at a time, which stays in a core's cache


def target_log_probs(
    logits: NDArray[Any], targets: NDArray[np.int64], scratch: NDArray[np.float32] | None = None
) -> LogProbs:
    """The log-probability (R,) of each target (R,) under its row of logits (R, V), float16 or float32.

    NaN or +inf among a row's logits makes it NaN, without a warning. `scratch`: memory of `scratch_size(V)` floats.
    """
    num_rows, vocab_size = logits.shape
    if scratch is None:
        scratch = np.empty(scratch_size(vocab_size), np.float32)
    rows = max(1, SLICE_FLOATS // vocab_size)
    log_probs = np.empty(num_rows, np.float32)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for start in range(0, num_rows, rows):
            part, ids = logits[start : start + rows], targets[start : start + rows]
            shifted = scratch[: part.size].reshape(part.shape)
            peak = part.max(axis=1, keepdims=True).astype(np.float32)
            np.subtract(part, peak, out=shifted)
            chosen = shifted[np.arange(len(ids)), ids].astype(np.float64)
            np.exp(shifted, out=shifted)
            # numpy adds float32 pairwise, so a long row needs no sum in float64.
            log_probs[start : start + rows] = chosen - np.log(shifted.sum(axis=1), dtype=np.float64)
    return log_probs


def first_log_probs(logits: NDArray[np.float32], targets: NDArray[Any]) -> LogProbs:
    """The log-probability (N,) of each target (N,) under the same logits (V,), as `target_log_probs` gives it."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        shifted = logits - logits.max()
        chosen = shifted[targets].astype(np.float64)
        return np.asarray(chosen - np.log(np.exp(shifted).sum(), dtype=np.float64), np.float32)


def scratch_size(vocab_size: int) -> int:
    """How many floats of scratch memory `target_log_probs` needs."""
    return max(SLICE_FLOATS, vocab_size)
