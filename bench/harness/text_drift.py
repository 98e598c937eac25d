"""How far one model is from another that should give the same: in log-probabilities, and in greedy texts."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Read:
    """What a model makes of texts."""

    log_probs: NDArray[np.float64]  # of their tokens, in nats
    greedy: list[tuple[int, ...]]  # the ids that it writes, greedily


@dataclass(frozen=True, slots=True)
class TextDrift:
    """How far a model is from the reference: as `worker.models.drift`, without rounding, and with greedy texts."""

    perplexity: float
    change: float  # of the perplexity, in percent
    standard_error: float  # of the change, in percent, with tokens as the sample
    mean: float  # nats a token, absolute
    worst: float  # nats, of a single token
    equal: int  # greedy texts that are the reference's, of `texts`
    texts: int


def text_drift(read: Read, reference: Read) -> TextDrift:
    """How far `read` is from `reference`, which read the same."""
    gaps = read.log_probs - reference.log_probs
    return TextDrift(
        perplexity=_perplexity(read.log_probs),
        change=100 * (_perplexity(read.log_probs) / _perplexity(reference.log_probs) - 1),
        standard_error=100 * float(gaps.std() / math.sqrt(len(gaps))),
        mean=float(np.abs(gaps).mean()),
        worst=float(np.abs(gaps).max()),
        equal=sum(mine == exact for mine, exact in zip(read.greedy, reference.greedy, strict=True)),
        texts=len(reference.greedy),
    )


def _perplexity(log_probs: NDArray[np.float64]) -> float:
    return math.exp(-float(log_probs.mean()))
