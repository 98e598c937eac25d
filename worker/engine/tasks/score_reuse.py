"""Scoring documents with the memory of scores: only documents that are not stored there go through the model.

Knows: scores and keys. Does not know: the database, models. (Translation reuses single segments: `translation.py`.)
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from jobs.answers import Answers
from jobs.outcome import Score
from jobs.spec import ScoreOptions
from worker.engine.tasks.result_memory import ResultMemory, memory_key


class DocumentScorer(Protocol):
    """Computes the score of every text."""

    def score(self, texts: Sequence[str], options: ScoreOptions, *, should_stop: Callable[[], bool]) -> Answers: ...


def score_with_reuse(
    scorer: DocumentScorer,
    texts: Sequence[str],
    options: ScoreOptions,
    memory: ResultMemory,
    should_stop: Callable[[], bool],
) -> Answers:
    """Score every text. With `options.reuse`, texts in the memory are not computed, and equal texts are computed once;
    without it, the memory is neither read nor extended. Raises what the scorer raises."""
    if not options.reuse or not texts:
        return scorer.score(texts, options, should_stop=should_stop)
    keys = [memory_key(memory, text) for text in texts]
    known = memory.recall_scores(list(dict.fromkeys(keys)))
    unknown = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if not unknown:
        return Answers(outcomes=[replace(known[key], reused=True) for key in keys])
    computed = scorer.score(list(unknown.values()), options, should_stop=should_stop)
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
