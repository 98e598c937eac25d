"""The provider openai continues prompts by a server on loopback: what is asked for one, what each answer means."""

import json
from dataclasses import replace
from typing import Any

import pytest

from jobs.answers import Unanswered
from jobs.outcome import Failed, Finish, Flag, Generation
from jobs.provider_settings.server_address import OPENAI_URL
from jobs.providers import Reason
from jobs.spec import JobSpec
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.task import Task
from tests.processes.providers.openai_asked import KEY, TEXTS, TRANSLATE, always, asking, chat, only
from tests.scripted_api import Request
from worker.providers.openai_api.outcomes import why_not_generate

GENERATE = replace(TRANSLATE, task=Task.GENERATE, model="demo-lm", options=GenerateOptions(max_new_tokens=8))


def job(**options: Any) -> JobSpec:
    return replace(GENERATE, options=replace(GENERATE.options, **options))


def text(content: Any = " rain.", finish: Any = "stop", **choice: Any) -> dict[str, Any]:
    """An answer of /completions."""
    return {
        "choices": [{"index": 0, "finish_reason": finish, "text": content, **choice}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3},
    }


def listed(*tokens: tuple[str, float]) -> dict[str, Any]:
    return {"logprobs": {"tokens": [name for name, _ in tokens], "token_logprobs": [number for _, number in tokens]}}


def test_a_prompt_is_continued_as_it_is_and_greedily_unless_the_job_draws() -> None:
    with asking(always(text())) as (api, ask):
        found = only(ask(job(), [TEXTS[0]]))

    assert found == Generation(" rain.", None, Finish.EOS, 5, 0, 3, flags=(Flag.UNSCORED,))
    request = api.requests[-1]
    assert request.path == "/v1/completions"
    assert request.body == {
        "model": "m", "prompt": TEXTS[0], "temperature": 0, "seed": 0, "max_tokens": 8, "logprobs": 1,
        "repeat_penalty": 1,
    }  # fmt: skip
    assert KEY not in json.dumps(request.body)


def test_a_job_that_draws_sends_its_sampling_and_its_stop_texts() -> None:
    spec = job(temperature=0.5, top_p=0.25, top_k=7, seed=9, stop=("\n", "."))
    with asking(always(text())) as (api, ask):
        ask(spec, [TEXTS[0]])

    sent = api.requests[-1].body
    assert {name: sent[name] for name in ("temperature", "top_p", "top_k", "seed", "stop", "min_p")} == {
        "temperature": 0.5, "top_p": 0.25, "top_k": 7, "seed": 9, "stop": ["\n", "."], "min_p": 0,
    }  # fmt: skip


def test_a_chat_is_the_documents_messages_after_that_of_the_system() -> None:
    own = {"messages": [{"role": "system", "content": "Shout."}, {"role": "user", "content": "Hello"}]}
    with asking(always(chat("Hi."))) as (api, ask):
        found = ask(job(chat=True, system="Be brief."), ['{"text":"Hello"}', json.dumps(own)]).outcomes

    asked = sorted(
        (request.body["messages"][0]["content"], len(request.body["messages"])) for request in api.requests[1:]
    )
    assert asked == [("Be brief.", 2), ("Shout.", 2)]
    assert api.requests[-1].path == "/v1/chat/completions"
    assert [one.text for one in found if isinstance(one, Generation)] == ["Hi.", "Hi."]


@pytest.mark.parametrize(
    ("answer", "options", "finish"),
    [
        (text(), {}, Finish.EOS),
        (text(finish="eos_token"), {}, Finish.EOS),
        (text(finish="length"), {}, Finish.LENGTH),
        (text(), {"stop": (".",)}, Finish.STOP),  # the server does not tell
        (text(stop_reason=None), {"stop": (".",)}, Finish.EOS),  # vLLM
        (text(stop_reason=2), {"stop": (".",)}, Finish.EOS),
        (text(stop_reason="."), {"stop": (".",)}, Finish.STOP),
        (text(matched_stop="."), {"stop": (".",)}, Finish.STOP),  # SGLang
        (text(finish="stop_sequence"), {"stop": (".",)}, Finish.STOP),  # TGI
    ],
)
def test_what_ended_a_continuation_is_read_from_the_answer(
    answer: Any, options: dict[str, Any], finish: Finish
) -> None:
    with asking(always(answer)) as (_, ask):
        found = only(ask(job(**options), [TEXTS[0]]))

    assert isinstance(found, Generation)
    assert found.finish is finish
    assert (Flag.TRUNCATED in found.flags) is (finish is Finish.LENGTH)


@pytest.mark.parametrize(
    ("tokens", "stop"),
    [
        ([(" ra", -0.5), ("in", -0.25)], ()),
        ([(" ra", -0.5), ("in", -0.25), (".\n", -1.0)], (".",)),  # llama-cpp-python lists the stop text, too
        ([(" ra", -0.5), ("in", -0.25), ("", -1.0), ("", -1.0), ("", -2.0)], ()),  # and no text of parts of a character
    ],
)
def test_the_log_probabilities_of_the_new_tokens_are_summed(tokens: list[tuple[str, float]], stop: Any) -> None:
    content = " rain雨" if len(tokens) == 5 else " rain"
    with asking(always(text(content, **listed(*tokens)))) as (_, ask):
        found = only(ask(job(stop=stop), [TEXTS[0]]))

    assert isinstance(found, Generation)
    assert found.log_prob == sum(number for _, number in tokens)
    assert (found.num_new_tokens, found.flags) == (len(tokens), ())
    assert found.finish is (Finish.STOP if stop else Finish.EOS)


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_server_that_refuses_a_field_that_is_not_needed_is_asked_without_it_from_then_on(status: int) -> None:
    def answer(request: Request) -> tuple[int, Any]:
        unknown = next(
            (name for name in ("logprobs", "min_p", "top_k", "repeat_penalty") if name in request.body), None
        )
        refused = {"error": {"message": f"Unrecognized request argument supplied: {unknown}"}}
        return (status, refused) if unknown else (200, text())

    with asking(answer, openai_concurrency=1) as (api, ask):
        found = ask(job(temperature=1.0), TEXTS[:2]).outcomes

    assert all(isinstance(one, Generation) for one in found)
    assert len([request for request in api.requests if request.body]) == 6


def test_a_server_that_does_not_take_the_top_k_of_the_job_cannot_do_it() -> None:
    refused = {"error": {"message": "Unrecognized request argument supplied: top_k"}}
    with asking(lambda request: (400, refused) if "top_k" in request.body else (200, text())) as (_, ask):
        found = only(ask(job(temperature=1.0, top_k=5), [TEXTS[0]]))

    assert isinstance(found, Unanswered)
    assert (found.code, "--top-k" in found.reason) == (Reason.OPEN_ERROR, True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": 1.0, "top_k": 5}, "has no top_k"),
        ({"stop": tuple("abcde")}, "4 stop texts at most, and --stop gives 5"),
        ({"temperature": 1.0, "top_p": 0.5, "stop": tuple("abcd")}, None),
    ],
)
def test_what_openai_itself_does_not_have_is_said_at_submit(options: dict[str, Any], says: str | None) -> None:
    why = why_not_generate(GenerateOptions(**options), OPENAI_URL)

    assert why is None if says is None else says in str(why)
    assert why_not_generate(GenerateOptions(**options), "http://127.0.0.1/v1") is None


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (chat(None, refusal="I cannot help with rain."), "I cannot help with rain."),
        (chat("", finish="content_filter"), "content filter"),
    ],
)
def test_a_refusal_fails_the_document(answer: Any, says: str) -> None:
    with asking(always(answer)) as (_, ask):
        found = only(ask(job(chat=True), ['{"text":"Hello"}']))

    assert isinstance(found, Failed)
    assert (found.code, says in found.message) == ("refused", True)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (chat("", reasoning_content="Hm."), Reason.DECLINED),
        (chat("", finish="length"), Reason.DECLINED),
        (chat("N\0"), Reason.DECLINED),
        (chat("Hi.", finish="tool_calls"), Reason.BAD_ANSWER),
        (chat("Hi.", finish=""), Reason.BAD_ANSWER),
        ({"choices": []}, Reason.BAD_ANSWER),
    ],
)
def test_an_answer_that_is_none_goes_to_the_next_provider(answer: Any, code: Reason) -> None:
    with asking(always(answer)) as (_, ask):
        found = only(ask(job(chat=True), ['{"text":"Hello"}']))

    assert isinstance(found, Unanswered)
    assert found.code is code


def test_a_model_that_ends_at_once_has_continued_the_prompt_by_nothing() -> None:
    with asking(always(text(""))) as (_, ask):
        found = only(ask(job(), [TEXTS[0]]))

    assert isinstance(found, Generation)
    assert (found.text, found.finish) == ("", Finish.EOS)


def test_a_prompt_longer_than_the_context_is_declined_alone_and_equal_ones_are_asked_once() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        message = "This model's maximum context length is 16 tokens"
        return (400, {"error": {"message": message}}) if "snow" in str(request.body) else (200, text())

    with asking(answer) as (api, ask):
        found = ask(job(), [*TEXTS, TEXTS[0]])

    assert [isinstance(one, Generation) for one in found.outcomes] == [True, False, True, True]
    assert len([request for request in api.requests if request.body]) == 3
    (usage,) = found.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (10, 6)
