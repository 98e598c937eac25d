"""The provider ollama translates by a stand-in of the documented API, which behaves well and in every wrong way."""

import math
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jobs.answers import Unanswered
from jobs.outcome import Flag, Translation
from jobs.providers import Reason, Usage
from jobs.tasks.translate import TranslateOptions
from tests.ollama_stand_in import OllamaStandIn, ollama
from tests.processes.providers.ollama_asked import CHAT, LONG, TEXTS, answer, change, job, only, provider
from tests.rows import batch_of
from tests.scripted_api import Behaviour, Request, cuts, drips, floods, hangs_up, says, serving, stalls
from worker.engine.runtime.run_context import RunContext
from worker.providers.http import client

pytestmark = pytest.mark.usefixtures("ollama_closed")


def test_documents_are_translated_and_each_text_of_a_batch_is_asked_once() -> None:
    with ollama() as (server, api):
        found = answer(api, [*TEXTS, TEXTS[0], "12:30"], ollama_keep_alive="10m")

    first, second, again, unchanged = found.outcomes
    assert first == again == Translation("RAIN IN ARDEN.", 3 * math.log(0.5), 1, 0, 28, 3)
    assert isinstance(second, Translation)
    assert second.text == "SNOW IN KELSO ON FRIDAY."
    assert isinstance(unchanged, Translation)
    assert (unchanged.text, unchanged.flags) == ("12:30", (Flag.PASSED_THROUGH,))
    assert found.usage == [Usage("ollama", 2, 28 + 30, 4 + 6, 0.0)]
    assert [(timing.phase, timing.tokens) for timing in sorted(found.timings, key=lambda one: one.tokens)] == [
        ("request", 28 + 4),
        ("request", 30 + 6),
    ]
    for chat in server.chats:
        assert chat["messages"][0]["content"].startswith("Translate the following text from English to German.")
        assert (chat["stream"], chat["truncate"], chat["shift"], chat["think"]) == (False, False, False, False)
        assert (chat["keep_alive"], chat["options"]["temperature"]) == ("10m", 0)


def test_the_settings_have_a_prompt_and_the_job_a_limit() -> None:
    with ollama() as (server, api):
        options = TranslateOptions(target_language="de", max_new_tokens=2)
        found = answer(api, [TEXTS[0]], options, ollama_template="{source}>{target}\n\n{text}")

    assert server.chats[0]["messages"][0]["content"] == "English>German\n\nRain in Arden."
    assert server.chats[0]["options"]["num_predict"] == 2
    assert (only(found.outcomes).text, only(found.outcomes).flags) == ("RAIN IN", (Flag.TRUNCATED,))


def test_a_server_without_log_probabilities_translates_and_the_result_says_so() -> None:
    with ollama(OllamaStandIn(version=(0, 12, 6))) as (_, api):
        found = only(answer(api, [TEXTS[0]]).outcomes)

    assert (found.text, found.log_prob, found.flags) == ("RAIN IN ARDEN.", None, (Flag.UNSCORED,))


@pytest.mark.parametrize("obeys", [True, False], ids=("refused", "cut silently"))
def test_a_document_longer_than_the_context_is_declined_and_the_others_are_translated(*, obeys: bool) -> None:
    with ollama(OllamaStandIn(context=60, obeys=obeys)) as (_, api):
        long, short = answer(api, [LONG, TEXTS[0]]).outcomes

    assert isinstance(long, Unanswered)
    assert long.code is Reason.DECLINED
    assert ("exceeds the context length" if obeys else "into the 60 tokens of context") in long.reason
    assert isinstance(short, Translation)


@pytest.mark.parametrize("obeys", [True, False], ids=("ended", "prompt cut while writing"))
def test_a_translation_that_does_not_fit_into_the_context_is_declined(*, obeys: bool) -> None:
    with ollama(OllamaStandIn(context=40, obeys=obeys, says=lambda text: text * 20)) as (_, api):
        found = only(answer(api, [TEXTS[0]]).outcomes)

    assert isinstance(found, Unanswered)
    assert found.code is Reason.DECLINED
    assert ("its translation does not fit" if obeys else "into the 40 tokens of context") in found.reason


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (change(CHAT, done=False), "half an answer"),
        (change(CHAT, done_reason="load"), "done_reason 'load'"),
        (change(CHAT, model="other"), "is of the model 'other', not of 'm'"),
        (change(CHAT, message=None), "no message with a text"),
        (change(CHAT, eval_count="3"), "eval_count that is not a number of tokens"),
        (change(CHAT, error="out of memory"), "out of memory"),
        (lambda path, answer: [answer] if path == CHAT else answer, "is not an object"),
        (lambda path, answer: b'{"done": false}\n{"done": true}' if path == CHAT else answer, "not JSON"),
    ],
    ids=("half", "loaded", "other model", "no message", "count", "error", "list", "stream"),
)
def test_a_wrong_answer_is_a_failure_and_no_translation(edit: Any, sentence: str) -> None:
    with ollama(OllamaStandIn(edit=edit)) as (_, api):
        found = answer(api, TEXTS).outcomes

    for one in found:
        assert isinstance(one, Unanswered)
        assert (one.code, one.is_failure) == (Reason.BAD_ANSWER, True)
        assert sentence in one.reason


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (stalls, Reason.TIMEOUT),
        (drips, Reason.TIMEOUT),
        (hangs_up, Reason.UNREACHABLE),
        (cuts({"model": "m", "done": True}), Reason.UNREACHABLE),
        (floods, Reason.BAD_ANSWER),
        (
            says({"error": "server busy, please try again.  maximum pending requests exceeded"}, 503),
            Reason.SERVER_ERROR,
        ),
        (says({"error": "llama runner process has terminated"}, 500), Reason.SERVER_ERROR),
        (says({"error": "unauthorized"}, 401), Reason.NO_ACCESS),
        (says({"error": "weekly usage limit"}, 429), Reason.RATE_LIMIT),
        (says({"error": "model 'm' not found"}, 404), Reason.NO_MODEL),
        (says({"error": '"m" does not support chat'}, 400), Reason.OPEN_ERROR),
    ],
    ids=("stalls", "drips", "hangs up", "cut", "floods", "busy", "crash", "access", "rate", "removed", "no chat"),
)
def test_a_server_that_fails_midway_fails_each_document_that_is_left(
    behaviour: Behaviour, code: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_BYTES", 1 << 20)
    with serving(OllamaStandIn()) as api:
        good = api.behaviours[0]
        api.behaviours[:] = [*[good] * 5, behaviour]  # four of opening, and one document
        found = answer(
            api, TEXTS, ollama_concurrency=1, ollama_timeout_s=0.5 if code is Reason.TIMEOUT else 10.0
        ).outcomes

    assert isinstance(found[0], Translation)
    assert isinstance(found[1], Unanswered)
    assert (found[1].code, found[1].is_failure) == (code, True)


def test_a_document_that_the_server_refuses_is_declined_and_many_are_a_failure_of_the_server() -> None:
    with serving(OllamaStandIn()) as api:
        api.behaviours[:] = [*[api.behaviours[0]] * 4, says({"error": "invalid character"}, 400)]
        lane = provider(api).new_lane()
        lane.open(job())
        one = only(lane.process(job(), batch_of(TEXTS[:1]), RunContext()).outcomes)
        many = lane.process(job(), batch_of([f"Rain {n}." for n in range(8)]), RunContext()).outcomes

    assert one == Unanswered(Reason.DECLINED, "the server refuses it (HTTP 400: invalid character)")
    assert {(found.code, found.is_failure) for found in many if isinstance(found, Unanswered)} == {
        (Reason.BAD_ANSWER, True)
    }


def test_no_more_requests_than_the_setting_allows_are_under_way_in_all_lanes_together() -> None:
    server = OllamaStandIn()

    def slow(request: Request, connection: socket.socket) -> None:
        time.sleep(0.02)
        server(request, connection)

    with serving(slow) as api:
        shared = provider(api, ollama_concurrency=2)
        shared.open(job())
        with ThreadPoolExecutor(2) as lanes:
            found = list(
                lanes.map(
                    lambda texts: shared.new_lane().process(job(), batch_of(texts), RunContext()),
                    ([f"Rain {n}." for n in range(6)], [f"Snow {n}." for n in range(6)]),
                )
            )

    assert api.most_at_once == 2
    assert all(isinstance(outcome, Translation) for one in found for outcome in one.outcomes)
