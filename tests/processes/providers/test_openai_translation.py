"""The provider openai translates by a server on loopback: what is asked for a document, what each answer means."""

import json
import logging
from typing import Any

import pytest

from jobs.answers import Unanswered
from jobs.errors import Stopped
from jobs.outcome import Failed, Flag, Translation
from jobs.providers import Reason
from tests.messages import line_with
from tests.processes.providers.openai_asked import (
    KEY,
    TEXTS,
    TRANSLATE,
    always,
    asking,
    chat,
    only,
    provider,
)
from tests.scripted_api import Request, says, serving, stalls
from worker.engine.runtime.run_context import RunContext


def test_a_document_is_translated_by_chat_and_the_key_goes_into_the_header_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with asking(always(chat())) as (api, ask):
        found = only(ask(TRANSLATE, [TEXTS[0]]))

    assert found == Translation("会下雨。", None, 1, 0, 20, 4, flags=(Flag.UNSCORED,))
    request = api.requests[-1]
    assert (request.path, request.body["model"], request.body["temperature"]) == ("/v1/chat/completions", "m", 0)
    assert line_with(request.body["messages"][0]["content"], "English", "Chinese")
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

    (usage,) = found.usage
    assert (usage.requests, usage.prompt_tokens, usage.completion_tokens) == (3, 60, 12)
    assert usage.cost == pytest.approx((60 * 1 + 12 * 2) / 1e6)
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
    assert "longer" in found[1].reason


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


def test_a_worker_that_stops_waits_for_no_answer() -> None:
    def behave(request: Request, connection: Any) -> None:
        (says({"data": []}) if request.path.endswith("/models") else stalls)(request, connection)

    with serving(behave) as api, provider(api, openai_timeout_s=30.0) as ask, pytest.raises(Stopped):
        ask(TRANSLATE, TEXTS, RunContext(should_stop=lambda: True))
