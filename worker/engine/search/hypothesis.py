"""The result of a search."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One sequence of generated ids."""

    ids: tuple[int, ...]  # no start token; end-of-sentence included where it was generated
    log_prob: float  # natural log, summed over ids, a forced id counting 0; NaN where logits were not finite
    score: float  # log_prob / len(ids) ** length_penalty
    truncated: bool  # the length limit came before the model's end of sentence


NOT_FINITE = Hypothesis((), math.nan, math.nan, truncated=False)  # of a sentence whose encoding is not finite
