"""What is asked of a server before the first document, and what is known without asking."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import Stopped
from jobs.providers import ProviderOrder, Reason
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.openai_stand_in import OpenAIStandIn
from tests.processes.providers.openai_asked import RERANK, TEXTS, TRANSLATE, always, asking, chat, provider
from tests.scripted_api import Request, hangs_up, says, serving
from worker.engine.runtime.run_context import RunContext
from worker.providers.available.openai import OpenAIProvider
from worker.providers.protocol import ProviderFailure, ProviderJob


def test_a_model_that_the_server_does_not_list_is_not_asked_for() -> None:
    with (
        asking(always(chat())) as (api, ask),
        pytest.raises(ProviderFailure, match="no model other; it has m") as failure,
    ):
        ask(replace(TRANSLATE, providers=ProviderOrder.parse("openai:other")), TEXTS)

    assert failure.value.reason is Reason.NO_MODEL
    assert [request.method for request in api.requests] == ["GET"]


def test_names_of_models_are_shown_safely() -> None:
    def behave(request: Request, connection: Any) -> None:
        says({"data": [{"id": "\x1b[2J" + "x" * 9_999}]})(request, connection)

    with serving(behave) as api, provider(api) as ask, pytest.raises(ProviderFailure, match="it has ") as failure:
        ask(TRANSLATE, TEXTS)
    assert "\x1b" not in str(failure.value)
    assert len(str(failure.value)) < 300


def test_after_a_failure_the_server_is_looked_at_again() -> None:
    with asking(lambda request: (500, {}) if "snow" in str(request.body) else (200, chat())) as (api, ask):
        for _ in range(2):
            ask(TRANSLATE, TEXTS[:1])
        ask(TRANSLATE, TEXTS[1:2])
        ask(TRANSLATE, TEXTS[2:])

    assert [request.path.rsplit("/", 1)[1] for request in api.requests] == [
        *("models", "completions", "completions", "completions"),
        *("models", "completions"),
    ]


def test_a_worker_that_stops_does_not_wait_until_another_lane_has_opened_the_model() -> None:
    opening, release = threading.Event(), threading.Event()

    def behave(request: Request, connection: Any) -> None:
        opening.set()
        release.wait(30)
        hangs_up(request, connection)

    with serving(behave) as api, provider(api, openai_timeout_s=60.0) as ask, ThreadPoolExecutor(1) as other_lane:
        try:
            first = other_lane.submit(ask, TRANSLATE, TEXTS[:1])
            assert opening.wait(30)
            with pytest.raises(Stopped):
                ask.process(TRANSLATE, TEXTS[:1], RunContext(should_stop=lambda: True))
            assert not first.done()
        finally:
            release.set()
        with pytest.raises(ProviderFailure):
            first.result()


def test_what_an_opening_cost_that_failed_is_recorded_with_the_next_batch() -> None:
    answers = iter([OpenAIStandIn(echoes=False), OpenAIStandIn()])
    current = next(answers)

    with serving(lambda request, connection: current(request, connection)) as api, provider(api) as ask:
        score = replace(TRANSLATE, task=Task.SCORE, options=ScoreOptions())
        with pytest.raises(ProviderFailure):
            ask(score, TEXTS[:1])
        asked = sum(request.method == "POST" for request in api.requests)
        current = next(answers)
        found = ask(score, TEXTS[:1])

    assert asked > 0
    (usage,) = found.usage
    assert usage.requests == sum(request.method == "POST" for request in api.requests)


@pytest.mark.parametrize(
    "spec",
    [
        replace(TRANSLATE, task=Task.SCORE, options=ScoreOptions(pairs=True)),
        replace(TRANSLATE, task=Task.SCORE, options=ScoreOptions(max_length=64)),
        replace(RERANK, options=RerankOptions(max_length=64)),
        replace(TRANSLATE, options=TranslateOptions(beam_size=4)),
        replace(TRANSLATE, model="gpt-4o-mini"),
    ],
    ids=["pairs", "max-length", "rerank-max-length", "beams", "no-language"],
)
def test_what_a_server_cannot_do_is_known_without_asking_it(spec: JobSpec) -> None:
    settings = Settings(home=Path("/nowhere"), models_dir=Path("/nowhere"))

    why = OpenAIProvider.start(WorkerArguments(settings)).why_not(ProviderJob(spec, spec.providers.choices[0]))

    assert why is not None
    assert "openai" not in why
