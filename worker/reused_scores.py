"""Scoring documents of which some were scored before: only the others go through the model."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from jobs.outcome import Score
from jobs.spec import ScoreOptions
from worker.engine.tasks.batch_result import BatchResult


class Scorer(Protocol):
    """Scores every text that it is given."""

    def score(self, texts: Sequence[str], options: ScoreOptions, *, should_stop: Callable[[], bool]) -> BatchResult: ...


class Memory(Protocol):
    """What documents were found to be before, and what tells this job's model and options from others."""

    @property
    def digest(self) -> bytes: ...
    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]: ...


def score_unknown(
    scorer: Scorer, texts: Sequence[str], options: ScoreOptions, memory: Memory, should_stop: Callable[[], bool]
) -> BatchResult:
    """Score every text; with `options.reuse`, equal ones once, and those that the memory knows not at all. Without, the
    memory is neither asked nor taught. Raises what the scorer raises."""
    if not options.reuse or not texts:
        return scorer.score(texts, options, should_stop=should_stop)
    keys = [hashlib.sha256(memory.digest + text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    known = memory.recall_scores(list(dict.fromkeys(keys)))
    unknown = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if not unknown:
        return BatchResult(outcomes=[replace(known[key], reused=True) for key in keys], learned={}, timings=[])
    computed = scorer.score(list(unknown.values()), options, should_stop=should_stop)
    found = dict(zip(unknown, computed.outcomes, strict=True))
    outcomes = []
    for key in keys:
        outcome = known.get(key) or found[key]
        if isinstance(outcome, Score) and key in known:
            outcome = replace(outcome, reused=True)
        elif isinstance(outcome, Score):
            known[key] = outcome  # for its next occurrence
        outcomes.append(outcome)
    learned = {key: outcome for key, outcome in found.items() if isinstance(outcome, Score) and outcome.is_finite}
    return BatchResult(outcomes=outcomes, learned={**computed.learned, **learned}, timings=computed.timings)
