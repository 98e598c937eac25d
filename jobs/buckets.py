"""Buckets of the histograms of a job: how many documents have which perplexity, and which length.

Buckets are logarithmic, so that one set of them fits perplexities of 2 and of 20,000, and lines as well as books:

    measure      of                                                       bucket of a value
    perplexity   exp(nll_sum / num_tokens); of a translation              floor(8 log2(perplexity)), 0 .. 255
                 exp(-log_prob / num_target_tokens)
    length       tokens of the text: scored ones, or of the source        floor(4 log2(length)), 0 .. 95

A value beyond the last bucket is counted in the last one. A document without a token has neither measure; one whose
log-probability is unknown has no perplexity. Standard library alone.
"""

import enum
import math
from collections.abc import Mapping

from jobs.measures import LN_2


class BucketMeasure(enum.StrEnum):
    """The measure whose values a histogram counts."""

    PERPLEXITY = "perplexity"
    LENGTH = "length"


# Buckets from a value to its double.
PER_DOUBLING: Mapping[BucketMeasure, int] = {BucketMeasure.PERPLEXITY: 8, BucketMeasure.LENGTH: 4}
# The last bucket begins at a perplexity of 4 billion (a model that guesses among 150,000 tokens has 150,000), and at 14
# million tokens.
LAST: Mapping[BucketMeasure, int] = {BucketMeasure.PERPLEXITY: 255, BucketMeasure.LENGTH: 95}
# Buckets for a nat per token. The recount in SQL multiplies by the same double, and so finds the same bucket.
PER_NAT = PER_DOUBLING[BucketMeasure.PERPLEXITY] / LN_2


def bucket_of(measure: BucketMeasure, value: float) -> int:
    """The bucket of a perplexity or of a number of tokens; `value` is above 0, and may be infinite."""
    return LAST[measure] if math.isinf(value) else _within(measure, PER_DOUBLING[measure] * math.log2(value))


def bucket_of_mean(nll_sum: float, num_tokens: int) -> int:
    """The bucket of the perplexity exp(nll_sum / num_tokens). `num_tokens` is above 0; the perplexity itself may be
    more than a double holds."""
    return _within(BucketMeasure.PERPLEXITY, nll_sum / num_tokens * PER_NAT)


def bounds_of_bucket(measure: BucketMeasure, bucket: int) -> tuple[float, float]:
    """The lowest value of a bucket, and the lowest above it; infinity above the last one."""
    width = PER_DOUBLING[measure]
    return 2 ** (bucket / width), math.inf if bucket >= LAST[measure] else 2 ** ((bucket + 1) / width)


def _within(measure: BucketMeasure, bucket: float) -> int:
    """A bucket rounded down, within 0 .. `LAST`. (Below 0 is a perplexity below 1, which only rounding gives.)"""
    return math.floor(min(max(bucket, 0.0), float(LAST[measure])))
