"""The checks of `kvjobs models verify`: their figures and verdicts. Does not know: models."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.models.drift import RelevanceDrift


class Verdict(enum.StrEnum):
    SAME = "same"  # token for token; log-probabilities within the rounding of float32
    TIED = "tied"  # but for tokens that are equally likely within the rounding of float32
    DIFFERS = "differs"
    MEASURED = "measured"  # of an approximation: nothing has to be equal
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCheck:
    """One comparison. None: not measured, or not for this kind of model."""

    name: str
    against: str
    verdict: Verdict
    num_segments: int = 0  # documents, of a causal model
    exact: float | None = None  # share of segments with the same ids
    tokens: float | None = None  # share of tokens that are the same (checkpoint: given the same prefix)
    chrf: float | None = None  # 0 to 100, where sacrebleu is installed
    drift: float | None = None  # mean difference of log-probabilities, nats a token
    num_tokens: int | None = None  # number of log-probabilities compared
    worst: float | None = None  # greatest difference of a single token, nats
    nats: float | None = None  # mean -log p of the model, nats a token
    perplexity: float | None = None  # relative difference from the other side's; -0.01: 1 % lower
    relevance: RelevanceDrift | None = None  # of a cross-encoder, from the other side
    note: str | None = None

    @property
    def has_failed(self) -> bool:
        return self.verdict is Verdict.DIFFERS


def token_figures(ours: Sequence[NDArray[Any]], theirs: Sequence[NDArray[Any]]) -> dict[str, Any]:
    """The fields of a check that compares log-probabilities of the same tokens, nats."""
    mine, yours = np.concatenate(ours).astype(np.float64), np.concatenate(theirs).astype(np.float64)
    gaps = np.abs(mine - yours)
    return {
        "num_tokens": len(gaps),
        "drift": float(gaps.mean()),
        "worst": float(gaps.max()),
        "nats": -float(mine.mean()),
        "perplexity": float(np.expm1(yours.mean() - mine.mean())),
    }


def decisive_check(checks: Sequence[VerifyCheck]) -> VerifyCheck:
    """The first that failed; else the comparison with the checkpoint, if it was made; else the first self check."""
    failed = (check for check in checks if check.has_failed)
    compared = (check for check in checks if check.name == "checkpoint" and check.verdict is not Verdict.LEFT_OUT)
    return next(failed, None) or next(compared, None) or checks[0]
