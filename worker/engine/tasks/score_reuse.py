"""Scoring documents with the memory of scores: only documents that are not stored there go through the model.

Knows: scores and keys. Does not know: the database, models. (Translation reuses single segments: `translation.py`.)
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from jobs.answers import Answers
from jobs.outcome import Score
from jobs.tasks.score import ScoreOptions
from worker.engine.runtime.result_memory import memory_key
from worker.engine.runtime.run_context import RunContext


class DocumentScorer(Protocol):
    """Computes the score of every text."""

    def score(self, texts: Sequence[str], options: ScoreOptions, run: RunContext) -> Answers: ...


def score_with_reuse(scorer: DocumentScorer, texts: Sequence[str], options: ScoreOptions, run: RunContext) -> Answers:
    """Score every text. With `options.reuse`, texts in the memory are not computed, and equal texts are computed once;
    without it, the memory is neither read nor extended. Raises what the scorer raises."""
    if not options.reuse or not texts:
        return scorer.score(texts, options, run)
    keys = [memory_key(run.digest, text) for text in texts]
    known = run.memory.recall_scores(list(dict.fromkeys(keys)))
    unknown = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if not unknown:
        return Answers(outcomes=[replace(known[key], reused=True) for key in keys])
    computed = scorer.score(list(unknown.values()), options, run)
    found = dict(zip(unknown, computed.outcomes, strict=True))
    outcomes = []
    for key in keys:
        outcome = known.get(key) or found[key]
        if isinstance(outcome, Score) and key in known:
            outcome = replace(outcome, reused=True)
        elif isinstance(outcome, Score):
            known[key] = outcome  # a later occurrence of the text is reused
        outcomes.append(outcome)
    learned = {key: outcome for key, outcome in found.items() if isinstance(outcome, Score) and outcome.is_finite}
    return Answers(outcomes=outcomes, learned={**computed.learned, **learned}, timings=computed.timings)
