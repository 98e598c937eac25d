"""
How far a model in int8 is from the same model in fp32, as `kvjobs models add` measured it.

Knows: the figures, and from where on they are a warning. Does not know: how they are measured. Needs only the standard
library.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from jobs.formatting import counted, figure, plain

MAX_PERPLEXITY_CHANGE = 0.01  # relative; a model is near fp32 up to here
MAX_MEAN = 0.15  # nats a token


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The difference on a sample. Numbers have three digits: the last bits depend on the processor."""

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


def is_large(perplexity_change: float, mean: float) -> bool:
    """Whether a model is so far from fp32 that its user has to know."""
    return abs(perplexity_change) > MAX_PERPLEXITY_CHANGE or mean > MAX_MEAN


def bounds() -> str:
    """From where on a drift is large, for a sentence."""
    return f"{plain(100 * MAX_PERPLEXITY_CHANGE)} % of the perplexity or {plain(MAX_MEAN)} nats a token"


def change(share: float) -> str:
    """0.0123 as +1.23 %."""
    return f"{figure(100 * share, is_signed=True)} %"
