"""The memory of scores: it returns what was stored, and failures and non-finite scores are never stored."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jobs.answers import Answers
from jobs.outcome import Failed, Outcome, Score, TokenScore
from jobs.spec import JobSpec
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.scoring import score_with_reuse


class Memory:
    """A memory of scores in a dictionary."""

    def __init__(self) -> None:
        self.known: dict[bytes, Score] = {}

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        return {key: self.known[key] for key in keys if key in self.known}


class Lengths:
    """Scores a text by its length, and records the texts in `asked`."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def score(self, texts: Sequence[str], options: ScoreOptions, run: RunContext) -> Answers:
        self.asked += texts
        return Answers([self._outcome(text) for text in texts])

    def _outcome(self, text: str) -> Outcome:
        if text == "failed":
            return Failed("non-finite", "NaN")
        score = Score(float(len(text)), 1, 1, len(text))
        return replace(score, tokens=(TokenScore("x", 0, 1, math.nan),)) if text == "nan" else score


def test_a_text_in_the_memory_is_not_scored_again() -> None:
    memory, scorer = Memory(), Lengths()
    context = RunContext(memory=memory, digest=b"model and options")  # type: ignore[arg-type]

    def run(*texts: str, **options: Any) -> list[Outcome]:
        produced = score_with_reuse(scorer, texts, ScoreOptions(**options), context)
        memory.known.update({key: one for key, one in produced.learned.items() if isinstance(one, Score)})
        return produced.outcomes

    first = run("a", "bb", "a", "failed", "nan")
    asked_first = list(scorer.asked)
    again = run("ccc", "a", "failed", "nan", "bb")

    assert asked_first == ["a", "bb", "failed", "nan"], "equal documents are scored once"
    assert scorer.asked[4:] == ["ccc", "failed", "nan"], "failures and non-finite scores are never stored"
    assert [isinstance(one, Score) and one.reused for one in first] == [False, False, True, False, False]
    assert [isinstance(one, Score) and one.reused for one in again] == [False, True, False, False, True]
    assert again[1] == replace(first[0], reused=True)  # type: ignore[type-var]
    assert len(memory.known) == 3

    scorer.asked.clear()
    assert run("a", "a", reuse=False) == [first[0], first[0]]
    assert scorer.asked == ["a", "a"]
    assert len(memory.known) == 3


@pytest.mark.parametrize("change", [{"token_scores": True}, {"max_length": 7}, {"pairs": True}])
def test_scores_are_reused_only_under_options_that_give_the_same_scores(change: dict[str, Any]) -> None:
    def spec(**options: Any) -> JobSpec:
        return JobSpec(task=Task.SCORE, model="m", model_revision="r", options=ScoreOptions(**options))

    assert spec(reuse=False).memory_digest() == spec().memory_digest()
    assert spec(**change).memory_digest() != spec().memory_digest()
    assert replace(spec(), model_revision="s").memory_digest() != spec().memory_digest()


def test_a_job_submitted_before_the_memory_existed_has_the_same_options_text() -> None:
    spec = JobSpec(task=Task.SCORE, model="m", model_revision="r", options=ScoreOptions())

    assert "reuse" not in spec.options_json()
    for options in (spec.options, ScoreOptions(reuse=False)):
        json = replace(spec, options=options).options_json()
        assert JobSpec.restore(task="score", model="m", model_revision="r", options_json=json).options == options
