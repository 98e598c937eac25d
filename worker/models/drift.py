"""
How far a model in int8 is from the same model in fp32, as `kvjobs models add` measured it.

Knows: the figures, and from where on they are a warning. Does not know: how they are measured. Needs only the standard
library.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from jobs.errors import ModelError
from jobs.text.formatting import counted, figure, plain

MAX_PERPLEXITY_CHANGE = 0.01  # relative; a model is near fp32 up to here
MAX_MEAN = 0.15  # nats a token
# Standard deviations of a score. Of trained weights (MiniLM, docs/models.md) 0.06 with mixed rows, 0.13 without, where
# a quarter of the orders changed; of small random ones 0.03 to 0.07.
MAX_SCORE_MEAN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The drift of a causal or translation model on a sample. Numbers have three digits: more vary by processor."""

    num_tokens: int  # whose log-probabilities were compared
    num_languages: int
    perplexity: float  # in int8
    perplexity_fp32: float
    perplexity_change: float  # relative to fp32: 0.01 is 1 % more
    mean: float  # difference of a token's log-probability, nats
    worst: float  # the largest such difference

    def __post_init__(self) -> None:
        for name in ("perplexity", "perplexity_fp32", "perplexity_change", "mean", "worst"):
            object.__setattr__(self, name, float(f"{getattr(self, name):.3g}"))

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """As `kvjobs.json` has it; raises KeyError, TypeError or ValueError where it is damaged."""
        return cls(
            num_tokens=int(content["num_tokens"]),
            num_languages=int(content["num_languages"]),
            perplexity=float(content["perplexity"]),
            perplexity_fp32=float(content["perplexity_fp32"]),
            perplexity_change=float(content["perplexity_change"]),
            mean=float(content["mean"]),
            worst=float(content["worst"]),
        )

    @property
    def is_large(self) -> bool:
        return is_large(self.perplexity_change, self.mean)

    def clause(self) -> str:
        """The figures, for a sentence."""
        return (
            f"on {counted(self.num_tokens, 'token')} in {counted(self.num_languages, 'language')}: perplexity "
            f"{figure(self.perplexity_fp32)} -> {figure(self.perplexity)} ({change(self.perplexity_change)}), "
            f"a token's log-probability by {figure(self.mean)} nats on average, {figure(self.worst)} at most"
        )

    @staticmethod
    def bounds() -> str:
        """From where on a drift is large, for a sentence."""
        return f"{plain(100 * MAX_PERPLEXITY_CHANGE)} % of the perplexity or {plain(MAX_MEAN)} nats a token"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevanceDrift:
    """The drift of a cross-encoder on queries with candidates. Scores have no unit: changes are in standard deviations
    of the scores in fp32. Numbers have three digits, as in `Drift`."""

    num_queries: int
    num_pairs: int
    mean: float  # change of a score
    worst: float
    num_reordered: int  # queries whose candidates have another order

    def __post_init__(self) -> None:
        for name in ("mean", "worst"):
            object.__setattr__(self, name, float(f"{getattr(self, name):.3g}"))

    @classmethod
    def between(cls, ours: Sequence[Sequence[float]], exact: Sequence[Sequence[float]]) -> Self:
        """The drift of scores of the candidates of each query. Raises ModelError if it cannot be computed."""
        mine, theirs = ([score for scores in queries for score in scores] for queries in (ours, exact))
        if not all(map(math.isfinite, (*mine, *theirs))):
            raise ModelError("its scores are not all finite")
        spread = statistics.pstdev(theirs)
        if not spread:
            raise ModelError("its scores in fp32 are all equal")
        gaps = [abs(my_score - their_score) / spread for my_score, their_score in zip(mine, theirs, strict=True)]
        return cls(
            num_queries=len(exact),
            num_pairs=len(gaps),
            mean=statistics.fmean(gaps),
            worst=max(gaps),
            num_reordered=sum(
                _order(scores) != _order(exact_scores) for scores, exact_scores in zip(ours, exact, strict=True)
            ),
        )

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """As `kvjobs.json` has it; raises KeyError, TypeError or ValueError where it is damaged."""
        return cls(
            num_queries=int(content["num_queries"]),
            num_pairs=int(content["num_pairs"]),
            mean=float(content["mean"]),
            worst=float(content["worst"]),
            num_reordered=int(content["num_reordered"]),
        )

    @property
    def is_large(self) -> bool:
        return self.mean > MAX_SCORE_MEAN

    def clause(self) -> str:
        """The figures, for a sentence."""
        return (
            f"on {counted(self.num_pairs, 'pair')}: a score by {figure(self.mean)} standard deviations on average, "
            f"{figure(self.worst)} at most; another order for {self.num_reordered} of "
            f"{counted(self.num_queries, 'query')}"
        )

    @staticmethod
    def bounds() -> str:
        """From where on a drift is large, for a sentence."""
        return f"{plain(MAX_SCORE_MEAN)} standard deviations on average"


AnyDrift = Drift | RelevanceDrift


def read_drift(content: Mapping[str, Any]) -> AnyDrift:
    """Either kind, as `kvjobs.json` has it; raises KeyError, TypeError or ValueError where it is damaged."""
    return RelevanceDrift.of(content) if "num_queries" in content else Drift.of(content)


def is_large(perplexity_change: float, mean: float) -> bool:
    """Whether a model is so far from fp32 that its user has to know."""
    return abs(perplexity_change) > MAX_PERPLEXITY_CHANGE or mean > MAX_MEAN


def change(share: float) -> str:
    """0.0123 as +1.23 %."""
    return f"{figure(100 * share, is_signed=True)} %"


def _order(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=scores.__getitem__)
