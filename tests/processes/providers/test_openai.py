"""The provider openai against a server on loopback: what is asked for one document, and what each answer means."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import Stopped
from jobs.outcome import Failed, Flag, Outcome, Ranking, Translation
from jobs.providers import ProviderOrder, Reason
from jobs.settings import Settings
from jobs.spec import JobSpec, RerankOptions, ScoreOptions, Task, TranslateOptions
from tests.openai_stand_in import OpenAIStandIn
from tests.rows import SPEC
from tests.scripted_api import Request, ScriptedApi, hangs_up, says, serving, stalls
from worker.engine.tasks.result_memory import NoMemory
from worker.providers.available.openai import OpenAIProvider
from worker.providers.protocol import ProviderAnswer, ProviderFailure, ProviderJob, Unanswered

KEY = "sk-never-shown"
TRANSLATE = replace(SPEC, model="demo-en-zh", providers=ProviderOrder.parse("openai:m"))
RERANK = replace(TRANSLATE, task=Task.RERANK, options=RerankOptions())
TEXTS = ["It will rain.", "It will snow.", "Fog."]
QUERY = {"query": "rain", "candidates": [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]}
Answer = Callable[[Request], tuple[int, Any]]


def chat(content: str | None = "会下雨。", finish: str = "stop", **message: Any) -> dict[str, Any]:
    """An answer of /chat/completions."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    return {"choices": [choice], "usage": {"prompt_tokens": 20, "completion_tokens": 4}}


@contextmanager
def asking(answer: Answer, **settings: Any) -> Iterator[tuple[ScriptedApi, "Asked"]]:
    """A server with the model m, and the provider that asks it."""

    def behave(request: Request, connection: Any) -> None:
        if request.path.endswith("/models"):
            says({"data": [{"id": "m"}]})(request, connection)
            return
        status, body = answer(request)
        says(body, status)(request, connection)

    with serving(behave) as api, provider(api, **settings) as asked:
        yield api, asked


@contextmanager
def provider(api: ScriptedApi, **settings: Any) -> Iterator["Asked"]:
    """The provider with a server's address and a key."""
    values = {"openai_attempts": 1, "openai_timeout_s": 5.0, "openai_concurrency": 2} | settings
    own = Settings(
        home=Path("/nowhere"),
        models_dir=Path("/nowhere"),
        openai_base_url=f"http://127.0.0.1:{api.port}/v1",
        openai_api_key=KEY,
        **values,
    )
    opened = OpenAIProvider.start(WorkerArguments(own))
    try:
        yield Asked(opened)
    finally:
        opened.close()


class Asked:
    """Asks the provider as a lane does."""

    def __init__(self, opened: OpenAIProvider) -> None:
        self._opened = opened

    def __call__(
        self, spec: JobSpec, texts: list[str], should_stop: Callable[[], bool] = lambda: False
    ) -> ProviderAnswer:
        job = ProviderJob(spec, spec.providers.choices[0])
        assert self._opened.why_not(job) is None
        self._opened.new_lane().open(job)
        return self.process(spec, texts, should_stop)

    def process(self, spec: JobSpec, texts: list[str], should_stop: Callable[[], bool]) -> ProviderAnswer:
        """As a lane whose model another lane has closed, after a failure."""
        job = ProviderJob(spec, spec.providers.choices[0])
        return self._opened.new_lane().process(job, texts, NoMemory(), should_stop)


def always(body: Any, status: int = 200) -> Answer:
    return lambda _: (status, body)


def only(answer: ProviderAnswer) -> Outcome | Unanswered:
    (outcome,) = answer.outcomes
    return outcome


def test_a_document_is_translated_by_chat_and_the_key_goes_into_the_header_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with asking(always(chat())) as (api, ask):
        found = only(ask(TRANSLATE, [TEXTS[0]]))

    assert found == Translation("会下雨。", None, 1, 0, 20, 4, flags=(Flag.UNSCORED,))
    request = api.requests[-1]
    assert (request.path, request.body["model"], request.body["temperature"]) == ("/v1/chat/completions", "m", 0)
    assert "from English to Chinese" in request.body["messages"][0]["content"]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(request.body) + caplog.text


def test_log_probabilities_of_a_translation_are_summed() -> None:
    body = chat()
    body["choices"][0]["logprobs"] = {
        "content": [{"token": "会下", "logprob": -0.5}, {"token": "雨。", "logprob": -0.25}]
    }
    with asking(always(body)) as (_, ask):
        found = only(ask(TRANSLATE, [TEXTS[0]]))

    assert isinstance(found, Translation)
    assert (found.log_prob, found.num_target_tokens, found.flags) == (-0.75, 2, ())


@pytest.mark.parametrize("status", [400, 500])  # OpenAI; llama-cpp-python with --logits_all false
def test_a_server_that_refuses_log_probabilities_is_asked_without_them_from_then_on(status: int) -> None:
    def answer(request: Request) -> tuple[int, Any]:
        refused = {"error": {"message": "logprobs is not supported with this model"}}
        return (status, refused) if "logprobs" in request.body else (200, chat())

    with asking(answer, openai_concurrency=1) as (api, ask):
        found = ask(TRANSLATE, TEXTS[:2])

    assert all(isinstance(one, Translation) for one in found.outcomes)
    assert ["logprobs" in one.body for one in api.requests if one.body] == [True, False, False]


@pytest.mark.parametrize(
    ("body", "code", "says_what"),
    [
        (chat(""), "empty-answer", "no text"),
        (chat(None, refusal="I cannot help with rain."), "refused", "I cannot help with rain."),
        (chat(None, refusal="\x1b[31mNo" + "!" * 9_999), "refused", "\\x1b[31mNo!!!"),
        (chat("", finish="content_filter"), "refused", "content filter"),
    ],
)
def test_an_answer_without_a_translation_fails_the_document(body: Any, code: str, says_what: str) -> None:
    with asking(always(body)) as (_, ask):
        found = only(ask(TRANSLATE, [TEXTS[0]]))

    assert isinstance(found, Failed)
    assert found.code == code
    assert says_what in found.message
    assert len(found.message) < 300


def test_thoughts_are_no_part_of_a_translation() -> None:
    body = chat("<think>Rain is 雨.</think>\n会下雨。")
    body["choices"][0]["logprobs"] = {"content": [{"token": body["choices"][0]["message"]["content"], "logprob": -9.0}]}
    with asking(always(body)) as (_, ask):
        found = only(ask(TRANSLATE, [TEXTS[0]]))

    assert found == Translation("会下雨。", None, 1, 0, 20, 4, flags=(Flag.UNSCORED,))


@pytest.mark.parametrize(
    "body",
    [chat("<think>Rain is"), chat("", reasoning_content="Rain is"), chat("", finish="length")],
    ids=["block", "field", "hidden"],
)
def test_thoughts_alone_are_no_fault_of_the_document(body: Any) -> None:
    with asking(always(body)) as (_, ask):
        found = only(ask(TRANSLATE, [TEXTS[0]]))

    assert found == Unanswered(Reason.DECLINED, "the model thought for 4 tokens and gave no translation")


def test_a_translation_that_reached_the_limit_is_flagged() -> None:
    with asking(always(chat(finish="length"))) as (_, ask):
        found = only(ask(TRANSLATE, [TEXTS[0]]))

    assert isinstance(found, Translation)
    assert Flag.TRUNCATED in found.flags


def test_equal_texts_are_asked_once_and_a_text_without_a_letter_not_at_all() -> None:
    with asking(always(chat())) as (api, ask):
        found = ask(TRANSLATE, [TEXTS[0], "12:30", TEXTS[0]])

    assert sum(request.method == "POST" for request in api.requests) == 1
    assert found.outcomes[0] == found.outcomes[2]
    assert isinstance(found.outcomes[1], Translation)
    assert found.outcomes[1].text == "12:30"


def test_tokens_of_every_answer_are_counted_and_priced_also_of_those_that_are_thrown_away() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        return 200, chat("" if "snow" in str(request.body) else "雨")

    with asking(answer, openai_price_per_million="1,2") as (_, ask):
        found = ask(TRANSLATE, TEXTS)

    assert found.usage is not None
    assert (found.usage.requests, found.usage.prompt_tokens, found.usage.completion_tokens) == (3, 60, 12)
    assert found.usage.cost == pytest.approx((60 * 1 + 12 * 2) / 1e6)
    requests = [timing.tokens for timing in found.timings if timing.phase == "request"]
    assert requests == [0, 24, 24, 24]  # the list of models, too


def test_a_document_longer_than_the_context_is_declined_alone() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        message = "This model's maximum context length is 16 tokens"
        return (400, {"error": {"message": message}}) if "snow" in str(request.body) else (200, chat())

    with asking(answer) as (_, ask):
        found = ask(TRANSLATE, TEXTS).outcomes

    assert [isinstance(one, Translation) for one in found] == [True, False, True]
    assert isinstance(found[1], Unanswered)
    assert found[1].code is Reason.DECLINED
    assert "longer than the server takes" in found[1].reason


def test_documents_that_are_all_too_long_are_no_fault_of_the_server() -> None:
    too_long = {"error": "the request exceeds the available context size"}
    with asking(always(too_long, 400)) as (_, ask):
        found = ask(TRANSLATE, [f"{TEXTS[0]} {number}" for number in range(9)]).outcomes

    assert {one.code for one in found if isinstance(one, Unanswered)} == {Reason.DECLINED}
    assert len(found) == 9


def test_documents_that_are_declined_for_reasons_of_their_own_are_no_fault_of_the_server() -> None:
    with asking(lambda request: (400, {"error": f"bad word in {request.body['messages'][0]['content'][-9:]}"})) as (
        _,
        ask,
    ):
        found = ask(TRANSLATE, [f"{TEXTS[0]} {number}" for number in range(9)]).outcomes

    assert {one.code for one in found if isinstance(one, Unanswered)} == {Reason.DECLINED}


def test_a_server_that_declines_every_document_is_at_fault_itself() -> None:
    with asking(always({"error": {"message": "temperature is not supported"}}, 400)) as (_, ask):
        found = ask(TRANSLATE, [f"{text} {number}" for text in TEXTS for number in range(3)]).outcomes

    assert {one.code for one in found if isinstance(one, Unanswered)} == {Reason.BAD_ANSWER}
    assert len(found) == 9


def test_a_model_that_the_server_does_not_list_is_not_asked_for() -> None:
    with (
        asking(always(chat())) as (api, ask),
        pytest.raises(ProviderFailure, match="no model other; it has m") as failure,
    ):
        ask(replace(TRANSLATE, providers=ProviderOrder.parse("openai:other")), TEXTS)

    assert failure.value.reason is Reason.NO_MODEL
    assert [request.method for request in api.requests] == ["GET"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "The model `m` does not exist."),
        (400, "The model `m` does not exist"),  # llama-cpp-python
        (404, 'model "m" not found, try pulling it first'),  # Ollama
        (400, "Invalid model name passed in model=m"),  # LiteLLM
    ],
)
def test_an_error_that_names_the_model_is_no_refusal_of_a_document(status: int, message: str) -> None:
    with asking(always({"error": {"message": message}}, status)) as (_, ask):
        found = only(ask(TRANSLATE, TEXTS[:1]))

    assert isinstance(found, Unanswered)
    assert (found.code, message in found.reason) == (Reason.NO_MODEL, True)


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


def test_a_worker_that_stops_waits_for_no_answer() -> None:
    def behave(request: Request, connection: Any) -> None:
        (says({"data": []}) if request.path.endswith("/models") else stalls)(request, connection)

    with serving(behave) as api, provider(api, openai_timeout_s=30.0) as ask, pytest.raises(Stopped):
        ask(TRANSLATE, TEXTS, lambda: True)


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
                ask.process(TRANSLATE, TEXTS[:1], lambda: True)
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
    assert found.usage is not None
    assert found.usage.requests == sum(request.method == "POST" for request in api.requests)


def test_queries_are_ranked_by_the_servers_own_endpoint_where_it_has_one() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        results = [
            {"index": index, "relevance_score": -float(len(text))}
            for index, text in enumerate(request.body["documents"])
        ]
        return 200, {"results": results[::-1]}

    with asking(answer) as (_, ask):
        found = only(ask(RERANK, [json.dumps(QUERY)]))

    assert isinstance(found, Ranking)
    assert [(one.id, one.score) for one in found.candidates] == [("2", -4.0), ("0", -13.0), ("1", -13.0)]


def test_a_query_with_fewer_scores_than_candidates_goes_on_as_a_whole() -> None:
    ranked = iter([{"results": [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": 0.5}]}])

    def probe_then_short(request: Request) -> tuple[int, Any]:
        return 200, next(ranked, {"results": [{"index": 0, "relevance_score": 1.0}]})

    with asking(probe_then_short) as (_, ask):
        found = only(ask(RERANK, [json.dumps(QUERY)]))

    assert isinstance(found, Unanswered)
    assert (found.code, found.reason) == (Reason.BAD_ANSWER, "the server's answer ranks 1 of 3 documents")


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


def test_a_server_whose_endpoint_fails_is_not_asked_for_scores_instead() -> None:
    """Else some queries of a job would be ranked in another way than others."""
    with asking(always({"error": "busy"}, 503)) as (api, ask), pytest.raises(ProviderFailure) as failure:
        ask(RERANK, [json.dumps(QUERY)])

    assert failure.value.reason is Reason.SERVER_ERROR
    assert [request.path for request in api.requests] == ["/v1/models", "/v1/rerank"]


def test_candidates_of_a_query_are_scored_side_by_side_and_after_a_refusal_no_more_are_begun() -> None:
    stand_in = OpenAIStandIn(reranks=False, refuses="snow")
    candidates = [{"id": str(number), "text": f"It will rain on day {number}."} for number in range(12)]
    barred = [*candidates[:2], {"id": "x", "text": "It will snow."}, *candidates[2:]]

    def slow(request: Request, connection: Any) -> None:
        time.sleep(0.01)
        stand_in(request, connection)

    with serving(slow) as api, provider(api, openai_concurrency=3) as ask:
        ranked = only(ask(RERANK, [json.dumps({"query": "rain", "candidates": candidates})]))
        before = len(api.requests)
        refused = only(ask(RERANK, [json.dumps({"query": "rain", "candidates": barred})]))

    assert isinstance(ranked, Ranking)
    assert len(ranked.candidates) == 12
    assert api.most_at_once == 3
    assert isinstance(refused, Unanswered)
    assert (refused.code, "longer than the server takes" in refused.reason) == (Reason.DECLINED, True)
    assert len(api.requests) - before <= 6
