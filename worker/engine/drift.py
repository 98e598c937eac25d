"""How far a model with smaller numbers is from the exact one: int8 against fp32, on a sample of text."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobs.errors import SpecError
from jobs.outcome import Score
from jobs.perplexity import Totals, total
from jobs.spec import ScoreOptions
from worker.engine.scoring import Scorer


@dataclass(frozen=True, slots=True)
class Drift:
    """Over the documents, and in them the tokens, that both models scored."""

    mean: float  # nats a token, absolute
    max: float  # nats
    exact: Totals
    other: Totals
    num_failed: int  # documents that one of the two could not score: not in the figures

    @property
    def relative(self) -> float:
        """By which the other's perplexity of the sample differs: 0.01 is 1 % more."""
        difference = (self.other.nll_sum - self.exact.nll_sum) / self.exact.num_tokens
        return math.expm1(difference) if difference < 709 else math.inf


def drift(
    exact: Scorer, other: Scorer, texts: Sequence[str], options: ScoreOptions, *, should_stop: Callable[[], bool]
) -> Drift:
    """Score `texts` with both and compare token by token. Raises SpecError where there is nothing to compare."""
    options = dataclasses.replace(options, token_scores=True)
    ours = exact.score(texts, options, should_stop=should_stop).outcomes
    theirs = other.score(texts, options, should_stop=should_stop).outcomes
    pairs = [
        (one, another)
        for one, another in zip(ours, theirs, strict=True)
        if isinstance(one, Score) and isinstance(another, Score)
    ]
    gaps = [abs(one - another) for pair in pairs for one, another in zip(*map(_log_probs, pair), strict=True)]
    if not gaps:
        raise SpecError(f"of {len(texts)} sample texts no token could be scored by both models: give others")
    return Drift(
        mean=math.fsum(gaps) / len(gaps),
        max=max(gaps),
        exact=total(one for one, _ in pairs),
        other=total(another for _, another in pairs),
        num_failed=len(texts) - len(pairs),
    )


def _log_probs(score: Score) -> list[float]:
    """Of the scored tokens, in order."""
    return [token.log_prob for token in score.tokens if token.log_prob is not None]
