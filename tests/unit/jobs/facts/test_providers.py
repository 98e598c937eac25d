"""Who answered a job, in words."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from jobs.facts.providers import answered_sentence, change_words, mixed_models, reason_rows, reasons_of
from jobs.store.report.job_providers import HandoverReason, JobProviders, ProviderMoment, ProviderSummary
from jobs.tasks.task import Task
from tests.summaries import RUNNING_JOB

ONNX = ProviderSummary(
    provider="onnx",
    model="demo-lm",
    skipped=None,
    documents=1,
    failed=0,
    handed_over=0,
    requests=0,
    prompt_tokens=0,
    completion_tokens=0,
    cost=0.0,
    handovers=[],
)
OPENAI = replace(ONNX, provider="openai", documents=1_200)
KEPT_ORDER = "What no provider answered keeps the order of the first stage; to try again: kvjobs submit ... --again"
SCORED, RERANKED = (replace(RUNNING_JOB, task=task) for task in (Task.SCORE, Task.RERANK))


def of(*providers: ProviderSummary, unanswered: int = 0) -> JobProviders:
    return JobProviders(providers, [], 0, unanswered)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (of(ONNX, OPENAI, unanswered=2), f"1 query answered by onnx, 1,200 by openai, 2 by no provider. {KEPT_ORDER}"),
        (of(replace(ONNX, documents=0), OPENAI), "1,200 queries answered by openai."),
        (of(replace(ONNX, documents=0)), "No query is answered yet."),
    ],
)
def test_a_sentence_says_who_answered(found: JobProviders, sentence: str) -> None:
    assert answered_sentence(RERANKED, found) == sentence


@pytest.mark.parametrize(
    ("next_provider", "code", "words"),
    [
        ("openai", "timeout", "onnx failed (timeout), openai was asked instead"),
        (None, "timeout", "onnx failed (timeout), no provider was left"),
        (None, "recovered", "onnx answers again"),
    ],
)
def test_a_change_says_what_happened(next_provider: str | None, code: str, words: str) -> None:
    change = ProviderMoment(
        at=datetime(2026, 1, 2, tzinfo=UTC),
        provider="onnx",
        next_provider=next_provider,
        code=code,
        reason="x",
        documents=1,
        worker_id=1,
        lane=0,
    )
    assert change_words(change) == words


def test_only_scores_of_several_models_are_cautioned_against() -> None:
    assert mixed_models(RERANKED, of(ONNX, OPENAI)) is None
    assert mixed_models(SCORED, of(ONNX, replace(OPENAI, documents=0))) is None
    assert "2 models" in (mixed_models(SCORED, of(ONNX, OPENAI)) or "")


def test_that_a_dead_provider_was_not_asked_stands_behind_why_it_failed() -> None:
    not_asked = HandoverReason("not-asked", 22, "it failed a moment ago and is asked again later: HTTP 500")
    both, alone = ([not_asked, HandoverReason("server-error", 18, "HTTP 500")], [not_asked])

    assert list(reasons_of(replace(OPENAI, handovers=both))) == [
        "openai did not answer 18 (server-error): HTTP 500",
        "openai was not asked for 22: it had failed a moment before",
    ]
    assert list(reason_rows(replace(OPENAI, handovers=both))) == [
        "18 not answered (server-error): HTTP 500",
        "22 not asked: it had failed a moment before",
    ]
    assert list(reason_rows(replace(OPENAI, handovers=alone))) == [
        "22 not answered (not-asked): it failed a moment ago and is asked again later: HTTP 500"
    ]
