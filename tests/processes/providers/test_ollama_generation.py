"""The provider ollama continues prompts: what its server is asked, and what an answer means."""

import json
from typing import Any

import pytest

from jobs.answers import Unanswered
from jobs.outcome import Finish, Flag, Generation
from jobs.providers import Reason
from jobs.tasks.generate import GenerateOptions
from tests.ollama_stand_in import OllamaStandIn, ollama
from tests.processes.providers.ollama_asked import LONG, TEXTS, answer, change, only

pytestmark = pytest.mark.usefixtures("ollama_closed")

TEN = GenerateOptions(max_new_tokens=10)


def test_a_prompt_is_continued_without_a_template() -> None:
    with ollama() as (server, api):
        found = only(answer(api, [TEXTS[0]], TEN).outcomes)

    assert isinstance(found, Generation)
    assert (found.text, found.finish, found.num_prompt_tokens, found.flags) == ("RAIN IN ARDEN.", Finish.EOS, 3, ())
    assert found.log_prob is not None
    assert api.requests[-1].path == "/api/generate"
    sent = server.chats[-1]
    assert (sent["prompt"], sent["raw"], sent["think"], sent["truncate"]) == (TEXTS[0], True, False, False)
    assert sent["options"] == {
        "num_predict": 10, "temperature": 0, "seed": 0, "top_p": 1, "top_k": 0, "min_p": 0, "repeat_penalty": 1,
    }  # fmt: skip
    assert server.num_loads == 1


def test_a_job_that_draws_sends_its_sampling() -> None:
    options = GenerateOptions(temperature=0.5, top_p=0.25, top_k=7, seed=9, stop=("\n",))
    with ollama() as (server, api):
        answer(api, [TEXTS[0]], options)

    sent = server.chats[-1]["options"]
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["seed"], sent["stop"]) == (0.5, 0.25, 7, 9, ["\n"])


def test_a_chat_is_the_documents_messages_after_that_of_the_system() -> None:
    own = {"messages": [{"role": "system", "content": "Shout."}, {"role": "user", "content": "Hello"}]}
    options = GenerateOptions(chat=True, system="Be brief.")
    with ollama() as (server, api):
        found = answer(api, ['{"text":"Hello"}', json.dumps(own)], options, ollama_concurrency=1).outcomes

    assert api.requests[-1].path == "/api/chat"
    assert [one["messages"][0]["content"] for one in server.chats] == ["Be brief.", "Shout."]
    assert [one.text for one in found if isinstance(one, Generation)] == ["HELLO", "HELLO"]


@pytest.mark.parametrize(
    ("options", "text", "finish"),
    [
        ({"max_new_tokens": 1}, "RAIN", Finish.LENGTH),
        ({"max_new_tokens": 10, "stop": (" ARD",)}, "RAIN IN", Finish.STOP),
        ({"max_new_tokens": 10}, "RAIN IN ARDEN.", Finish.EOS),
    ],
)
def test_what_ended_a_continuation_is_on_record(options: dict[str, Any], text: str, finish: Finish) -> None:
    with ollama() as (_, api):
        found = only(answer(api, [TEXTS[0]], GenerateOptions(**options)).outcomes)

    assert isinstance(found, Generation)
    assert (found.text, found.finish) == (text, finish)
    assert (Flag.TRUNCATED in found.flags) is (finish is Finish.LENGTH)


def test_thoughts_are_no_part_of_an_answer_and_alone_they_are_none() -> None:
    chat = GenerateOptions(chat=True)
    with ollama(OllamaStandIn(thoughts="Hm.")) as (_, api):
        found = only(answer(api, ['{"text":"Hello"}'], chat).outcomes)
    with ollama(OllamaStandIn(thoughts="Hm.", says=lambda _: "")) as (_, api):
        alone = only(answer(api, ['{"text":"Hello"}'], chat).outcomes)

    assert (found.text, found.log_prob, found.flags) == ("HELLO", None, (Flag.UNSCORED,))
    assert isinstance(alone, Unanswered)
    assert alone.code is Reason.DECLINED


@pytest.mark.parametrize("obeys", [True, False])
def test_a_prompt_that_does_not_fit_is_declined_alone(obeys: bool) -> None:
    with ollama(OllamaStandIn(context=40, obeys=obeys)) as (_, api):
        short, long = answer(api, [TEXTS[0], LONG], TEN).outcomes

    assert isinstance(short, Generation)
    assert isinstance(long, Unanswered)
    assert long.code is Reason.DECLINED


@pytest.mark.parametrize("fields", [{"response": None}, {"done_reason": "unload"}, {"done": False}, {"thinking": 1}])
def test_half_an_answer_is_none(fields: dict[str, Any]) -> None:
    def edit(path: str, found: dict[str, Any]) -> Any:
        return change("/api/generate", **fields)(path, found) if found.get("response") else found

    with ollama(OllamaStandIn(edit=edit)) as (_, api):
        found = only(answer(api, [TEXTS[0]], TEN).outcomes)

    assert isinstance(found, Unanswered)
    assert found.code is Reason.BAD_ANSWER
