"""Tokens with the colour of their log-probability."""

import math
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

# The lowest probability of each class, p9 first: what the model expected has no colour, what surprised it the darkest.
LOWEST = (0.9, 0.7, 0.5, 0.3, 0.15, 0.07, 0.03, 0.01, 0.001, 0.0)
_COSTS = [-math.log(probability) for probability in LOWEST[:-1]]  # nats


@dataclass(frozen=True, slots=True)
class ColoredToken:
    """A token of a scored document."""

    text: str
    log_prob: float | None  # nats; None: it had no context
    start: int  # UTF-8 bytes of the document
    stop: int

    @property
    def probability(self) -> float | None:
        return None if self.log_prob is None else math.exp(self.log_prob)

    @property
    def color(self) -> str:
        """The class of the style sheet: p0 (most surprising) to p9, or none for a token that was not scored."""
        return "unscored" if self.log_prob is None else f"p{9 - bisect(_COSTS, -self.log_prob)}"


@dataclass(frozen=True, slots=True)
class LegendColor:
    """A colour of the legend."""

    color: str
    low: float  # probability
    high: float


LEGEND: Sequence[LegendColor] = tuple(
    LegendColor(f"p{9 - at}", low, 1.0 if at == 0 else LOWEST[at - 1]) for at, low in enumerate(LOWEST)
)


def colored_tokens(token_scores: str) -> list[ColoredToken]:
    """The tokens of the JSON in `scores.token_scores`, each with its colour."""
    return [
        ColoredToken(token["text"], token["log_prob"], token["start"], token["stop"])
        for token in orjson.loads(token_scores)
    ]
