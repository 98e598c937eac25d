"""What follows from the sums of scored documents. Standard library alone.

Sums first, division last: the perplexity of a corpus is that of its sums, never a mean of perplexities.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from jobs.outcome import Score


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over documents, or of one."""

    nll_sum: float  # -log p in nats
    num_tokens: int
    num_words: int
    num_bytes: int

    @property
    def token_perplexity(self) -> float | None:
        return perplexity(self.nll_sum, self.num_tokens)

    @property
    def word_perplexity(self) -> float | None:
        """Comparable between models of different tokenizers."""
        return perplexity(self.nll_sum, self.num_words)

    @property
    def byte_perplexity(self) -> float | None:
        return perplexity(self.nll_sum, self.num_bytes)

    @property
    def bits_per_byte(self) -> float | None:
        """nll_sum / (num_bytes ln 2), as lm-evaluation-harness has it; None: there is no byte."""
        return self.nll_sum / (self.num_bytes * math.log(2)) if self.num_bytes else None


def total(scores: Iterable[Score]) -> Totals:
    """The sums of many documents. Their order changes no digit."""
    kept = list(scores)
    return Totals(
        nll_sum=math.fsum(score.nll_sum for score in kept),
        num_tokens=sum(score.num_tokens for score in kept),
        num_words=sum(score.num_words for score in kept),
        num_bytes=sum(score.num_bytes for score in kept),
    )


def perplexity(nll_sum: float, count: int) -> float | None:
    """exp(nll_sum / count). None: nothing to divide by. Infinity: more than a float can say, from 710 nats on."""
    if not count:
        return None
    try:
        return math.exp(nll_sum / count)
    except OverflowError:
        return math.inf
