"""Measures derived from the sums of a score. Needs only the standard library.

Sums first, division last: the perplexity of a corpus is that of the sums over its documents, never a mean.
"""

import math

LARGEST_EXPONENT = 709  # e to the 710th is more than a double holds
LN_2 = math.log(2)


def perplexity(nll_sum: float, count: int) -> float | None:
    """exp(nll_sum / count), per token, word or byte; infinite where it is too large for a double, None for count 0."""
    if not count:
        return None
    mean = nll_sum / count
    return math.exp(mean) if mean < LARGEST_EXPONENT else math.inf


def bits_per_byte(nll_sum: float, num_bytes: int) -> float | None:
    """nll_sum in bits, divided by bytes (lm-evaluation-harness' bits_per_byte); None for 0 bytes."""
    return nll_sum / (num_bytes * LN_2) if num_bytes else None
