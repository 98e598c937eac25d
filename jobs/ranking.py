"""
The order of the candidates of a query by a model's scores. Needs only the standard library.

    the first stage's order   a    b    c    d
    scores                    -2   ?    -1   -2      ?: no score, with a reason
    ranked                    c    b    a    d       by score, equal ones as before; b keeps its rank

Knows: scores. Does not know: models, texts, files.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobs.outcome import RankedCandidate

NO_TEXT = "the candidate holds no text"
NOT_IN_CORPUS = "the corpus has no text for the candidate"
NON_FINITE = "the model's log-probabilities are not finite (NaN or infinity)"
NO_FIRST_SCORE = "the first stage gives it no score, and the order asks for both scores (fusion)"


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with its scores."""

    id: str
    score: float | None  # of the model; None: it could not be scored
    first_score: float | None  # of the first stage, where the corpus gives one
    error: str | None = None  # why the model has no score for it


def rank(judged: Sequence[Judged], fusion: float = 0.0) -> tuple[RankedCandidate, ...]:
    """Rank candidates, which are given in the order of the first stage.

    By descending score; equal scores keep the order of the first stage. With `fusion` > 0 the score is (1 - fusion) x
    model + fusion x first stage, each scaled to 0 .. 1 by `scaled` among the candidates that have both. A candidate
    that cannot be scored (no score of the model; no score of the first stage where fusion needs it; or one that is
    not finite) keeps its rank, with the reason; the others fill the remaining ranks. One without a text goes behind
    all that have one.
    """
    checked = sorted(
        (_checked(candidate, fusion) for candidate in judged),
        key=lambda candidate: candidate.error in (NO_TEXT, NOT_IN_CORPUS),
    )
    indices = [index for index, candidate in enumerate(checked) if candidate.error is None]
    scores = _fused([checked[index] for index in indices], fusion)
    best_first = sorted(zip(indices, scores, strict=True), key=lambda found: -found[1])
    order = dict(enumerate(checked))
    final: dict[int, float] = {}  # by the index in the new order
    for index, (old_index, score) in zip(indices, best_first, strict=True):
        order[index], final[index] = checked[old_index], score
    return tuple(
        RankedCandidate(
            id=candidate.id,
            rank=index + 1,
            score=final.get(index),
            first_score=candidate.first_score,
            error=candidate.error,
        )
        for index, candidate in order.items()
    )


def unranked(candidates: Iterable[tuple[str, float | None]], reason: str) -> tuple[RankedCandidate, ...]:
    """Candidates (id, first score) none of which could be scored: in the given order, each with the reason."""
    return rank([Judged(candidate_id, None, first_score, reason) for candidate_id, first_score in candidates])


def scaled(values: Sequence[float]) -> list[float]:
    """Min-max scaling: the smallest is 0, the largest 1. Equal values are all 0, so that they add nothing."""
    if not values:
        return []
    # Halved, because the difference of two doubles may be too large for a double.
    least = min(values) / 2
    span = max(values) / 2 - least
    return [(value / 2 - least) / span if span else 0.0 for value in values]


def _checked(candidate: Judged, fusion: float) -> Judged:
    """The candidate; with an error in place of its score if it cannot be ranked by it."""
    first = (
        candidate.first_score if candidate.first_score is not None and math.isfinite(candidate.first_score) else None
    )
    error = candidate.error
    if error is None and (candidate.score is None or not math.isfinite(candidate.score)):
        error = NON_FINITE
    if error is None and fusion > 0 and first is None:
        error = NO_FIRST_SCORE
    return Judged(candidate.id, candidate.score if error is None else None, first, error)


def _fused(judged: Sequence[Judged], fusion: float) -> list[float]:
    """The final score of each; all have the scores that are needed."""
    model = [candidate.score for candidate in judged if candidate.score is not None]
    if fusion == 0:
        return model
    first = [candidate.first_score for candidate in judged if candidate.first_score is not None]
    return [(1 - fusion) * mine + fusion * theirs for mine, theirs in zip(scaled(model), scaled(first), strict=True)]
