"""The provider ollama against a stand-in of the documented API, which behaves well and in every wrong way."""

import json
import math
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.outcome import Flag, Outcome, Ranking, Translation
from jobs.providers import Choice, Reason, Usage
from jobs.settings import Settings
from jobs.spec import JobSpec, Method, Options, RerankOptions, ScoreOptions, Task, TranslateOptions
from tests.ollama_stand_in import OllamaStandIn, likely_answers, ollama
from tests.scripted_api import Behaviour, Request, ScriptedApi, cuts, drips, floods, hangs_up, says, serving, stalls
from worker.engine.tasks.result_memory import NoMemory
from worker.providers.available.ollama import OllamaProvider
from worker.providers.http import client, retries
from worker.providers.http.document_requests import TooLong
from worker.providers.protocol import ProviderAnswer, ProviderFailure, ProviderJob, Unanswered

TO_GERMAN = TranslateOptions(target_language="de")
TEXTS = ["Rain in Arden.", "Snow in Kelso on Friday."]
CANDIDATES = {"a": "Snow in Kelso.", "b": "It will rain in Arden.", "c": "Rain."}
QUERY = json.dumps(
    {"query": "rain in Arden", "candidates": [{"id": one, "text": text} for one, text in CANDIDATES.items()]}
)


STARTED: list[OllamaProvider] = []


@pytest.fixture(autouse=True)
def _no_pauses_and_nothing_left_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.01)
    yield
    while STARTED:
        STARTED.pop().close()


def job(options: Options = TO_GERMAN, model: str = "m") -> ProviderJob:
    task = Task.RERANK if isinstance(options, RerankOptions) else Task.TRANSLATE
    task = Task.SCORE if isinstance(options, ScoreOptions) else task
    return ProviderJob(
        JobSpec(task=task, model="demo-en-de", model_revision="0", options=options), Choice("ollama", model)
    )


def provider(api: ScriptedApi, **settings: Any) -> OllamaProvider:
    values = {"ollama_host": f"http://127.0.0.1:{api.port}", "ollama_timeout_s": 10.0} | settings
    arguments = WorkerArguments(Settings(home=Path("nowhere"), models_dir=Path("nowhere"), **values))
    STARTED.append(OllamaProvider.start(arguments))
    return STARTED[-1]


def answer(api: ScriptedApi, texts: Sequence[str], options: Options = TO_GERMAN, **settings: Any) -> ProviderAnswer:
    lane = provider(api, **settings).new_lane()
    lane.open(job(options))
    return lane.process(job(options), texts, NoMemory(), lambda: False)


def only(outcomes: Sequence[Outcome | Unanswered]) -> Any:
    (outcome,) = outcomes
    return outcome


def test_documents_are_translated_and_each_text_of_a_batch_is_asked_once() -> None:
    with ollama() as (server, api):
        found = answer(api, [*TEXTS, TEXTS[0], "12:30"], ollama_keep_alive="10m")

    first, second, again, unchanged = found.outcomes
    assert first == again == Translation("RAIN IN ARDEN.", 3 * math.log(0.5), 1, 0, 28, 3)
    assert isinstance(second, Translation)
    assert second.text == "SNOW IN KELSO ON FRIDAY."
    assert isinstance(unchanged, Translation)
    assert (unchanged.text, unchanged.flags) == ("12:30", (Flag.PASSED_THROUGH,))
    assert found.usage == Usage("ollama", 2, 28 + 30, 4 + 6, 0.0)
    assert [(timing.phase, timing.tokens) for timing in sorted(found.timings, key=lambda one: one.tokens)] == [
        ("request", 28 + 4),
        ("request", 30 + 6),
    ]
    for chat in server.chats:
        assert chat["messages"][0]["content"].startswith("Translate the following text from English to German.")
        assert (chat["stream"], chat["truncate"], chat["shift"], chat["think"]) == (False, False, False, False)
        assert (chat["keep_alive"], chat["options"]["temperature"]) == ("10m", 0)


def test_the_model_is_loaded_once_before_the_first_document_by_all_lanes() -> None:
    with ollama() as (server, api):
        lane = provider(api).new_lane()
        lane.open(job())
        before = [request.path for request in api.requests], server.num_loads
        lane.open(job())
        lane.process(job(), TEXTS, NoMemory(), lambda: False)

    assert before == (["/api/version", "/api/show", "/api/generate", "/api/ps"], 1)
    assert [request.path for request in api.requests[4:]] == ["/api/chat", "/api/chat"]
    assert server.num_loads == 1


def test_the_settings_have_a_prompt_and_the_job_a_limit() -> None:
    with ollama() as (server, api):
        options = TranslateOptions(target_language="de", max_new_tokens=2)
        found = answer(api, [TEXTS[0]], options, ollama_template="{source}>{target}\n\n{text}")

    assert server.chats[0]["messages"][0]["content"] == "English>German\n\nRain in Arden."
    assert server.chats[0]["options"]["num_predict"] == 2
    assert (only(found.outcomes).text, only(found.outcomes).flags) == ("RAIN IN", (Flag.TRUNCATED,))


def test_a_server_that_unloads_at_once_answers_too() -> None:
    with ollama() as (_, api):
        assert only(answer(api, [TEXTS[0]], ollama_keep_alive="0s").outcomes).text == "RAIN IN ARDEN."


def test_a_server_without_log_probabilities_translates_and_the_result_says_so() -> None:
    with ollama(OllamaStandIn(version=(0, 12, 6))) as (_, api):
        found = only(answer(api, [TEXTS[0]]).outcomes)

    assert (found.text, found.log_prob, found.flags) == ("RAIN IN ARDEN.", None, (Flag.UNSCORED,))


LONG = "Rain. " * 100


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


def failing(**values: Any) -> Callable[[], OllamaStandIn]:
    return lambda: OllamaStandIn(**values)


def change(path: str, **fields: Any) -> Callable[[str, Any], Any]:
    """An answer at one path with other fields."""
    return lambda asked, answer: answer | fields if asked == path else answer


@pytest.mark.parametrize(
    ("server", "code", "sentence"),
    [
        (failing(models={}), Reason.NO_MODEL, "the server has no model m; on its machine: ollama pull m"),
        (
            failing(version=(0, 12, 5)),
            Reason.OPEN_ERROR,
            "cuts long texts without saying so; this needs version 0.12.6",
        ),
        (
            failing(models={"m:latest": ("embedding",)}),
            Reason.OPEN_ERROR,
            "m writes no text; what it can do: embedding",
        ),
        (failing(edit=change("/api/version", version=None)), Reason.BAD_ANSWER, "names no version of Ollama"),
        (failing(edit=change("/api/generate", done=False)), Reason.BAD_ANSWER, "half an answer"),
        (failing(edit=change("/api/ps", models=None)), Reason.BAD_ANSWER, "no list of loaded models"),
        (failing(edit=change("/api/show", error="corrupt")), Reason.BAD_ANSWER, "error in place of an answer: corrupt"),
    ],
    ids=("no model", "old", "embedding model", "no version", "half", "no list", "error"),
)
def test_a_model_that_cannot_be_opened_says_why(
    server: Callable[[], OllamaStandIn], code: Reason, sentence: str
) -> None:
    with ollama(server()) as (_, api), pytest.raises(ProviderFailure) as failure:
        provider(api).open(job())

    assert failure.value.reason is code
    assert sentence in str(failure.value)


def test_another_kind_of_server_is_told_apart() -> None:
    with serving(says(b"404 page not found", 404)) as api, pytest.raises(ProviderFailure) as failure:
        provider(api).open(job())

    assert failure.value.reason is Reason.BAD_ANSWER
    assert "not that of an Ollama server" in str(failure.value)


def test_an_embedding_model_of_a_server_that_lists_no_capabilities_is_refused_by_the_server() -> None:
    server = OllamaStandIn(models={"m:latest": ()}, edit=change("/api/show", capabilities=None))
    with ollama(server) as (_, api), pytest.raises(ProviderFailure, match="does not support generate") as failure:
        provider(api).open(job())
    assert failure.value.reason is Reason.OPEN_ERROR


CHAT = "/api/chat"


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
        one = only(lane.process(job(), TEXTS[:1], NoMemory(), lambda: False).outcomes)
        many = lane.process(job(), [f"Rain {n}." for n in range(8)], NoMemory(), lambda: False).outcomes

    assert one == Unanswered(Reason.DECLINED, "the server refuses it (HTTP 400: invalid character)")
    assert {(found.code, found.is_failure) for found in many if isinstance(found, Unanswered)} == {
        (Reason.BAD_ANSWER, True)
    }


def test_a_server_that_comes_back_is_asked_anew_what_it_is() -> None:
    with ollama(OllamaStandIn(edit=change(CHAT, done=False))) as (server, api):
        lane = provider(api).new_lane()
        lane.open(job())
        lane.process(job(), TEXTS, NoMemory(), lambda: False)
        server.edit = lambda _, answer: answer
        server.context = 60
        lane.open(job())
        found = lane.process(job(), [LONG, TEXTS[0]], NoMemory(), lambda: False).outcomes

    assert [type(one) for one in found] == [TooLong, Translation]
    assert [request.path for request in api.requests].count("/api/ps") == 2


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
                    lambda texts: shared.new_lane().process(job(), texts, NoMemory(), lambda: False),
                    ([f"Rain {n}." for n in range(6)], [f"Snow {n}." for n in range(6)]),
                )
            )

    assert api.most_at_once == 2
    assert all(isinstance(outcome, Translation) for one in found for outcome in one.outcomes)


def test_candidates_are_ranked_by_the_answer_yes_or_no() -> None:
    with ollama() as (server, api):
        found = answer(api, [QUERY], RerankOptions())

    ranking = only(found.outcomes)
    assert isinstance(ranking, Ranking)
    assert [one.id for one in ranking.candidates] == ["b", "a", "c"]
    probabilities = [0.95, 0.05 + 0.9 / 3, 0.05 + 0.9 / 3]  # of Yes: all words of the query, "rain", "in"
    assert [one.score for one in ranking.candidates] == pytest.approx([math.log(p / (1 - p)) for p in probabilities])
    assert (ranking.flags, ranking.num_tokens) == ((), 3)
    assert found.usage is not None
    assert (found.usage.requests, found.usage.completion_tokens) == (3, 3)  # the question at opening is not the job's
    for chat in server.chats:
        assert (chat["options"]["num_predict"], chat["logprobs"], chat["top_logprobs"]) == (1, True, 20)


def bounded(prompt: str) -> dict[str, float]:
    """Of documents with snow the probability of No is not listed."""
    found = likely_answers(prompt)
    return {text: p for text, p in found.items() if "yes" in text.lower()} if "Snow" in prompt else found


def test_a_candidate_with_a_bound_in_place_of_a_score_keeps_its_rank_with_the_reason() -> None:
    with ollama(OllamaStandIn(likely=bounded)) as (_, api):
        ranking = only(answer(api, [QUERY], RerankOptions()).outcomes)

    first, *others = ranking.candidates
    assert (first.id, first.score, first.rank) == ("a", None, 1)
    assert "has a bound and no value" in str(first.error)
    assert [one.id for one in others] == ["b", "c"]
    assert ranking.flags == (Flag.KEPT_ORDER,)


def test_a_query_none_of_whose_candidates_has_a_score_is_declined() -> None:
    def silent(prompt: str) -> dict[str, float]:
        return likely_answers(prompt) if "Friday" in prompt else {"The": 0.9}

    with ollama(OllamaStandIn(likely=silent)) as (_, api):
        found = only(answer(api, [QUERY], RerankOptions()).outcomes)

    assert isinstance(found, Unanswered)
    assert found.code is Reason.DECLINED
    assert "neither Yes nor No is among the 20" in found.reason


def test_equal_candidates_are_asked_once_and_those_without_a_text_not_at_all() -> None:
    candidates = [{"id": "a", "text": "Rain."}, {"id": "b", "text": "Rain."}, {"id": "c", "text": None}]
    with ollama() as (server, api):
        ranking = only(answer(api, [json.dumps({"query": "rain", "candidates": candidates})], RerankOptions()).outcomes)

    a, b, c = ranking.candidates
    assert a.score == b.score == pytest.approx(math.log(0.95 / 0.05))
    assert (c.score, c.rank, c.error) == (None, 3, "the corpus has no text for the candidate")
    assert len(server.chats) == 2  # with that of opening


@pytest.mark.parametrize("obeys", [True, False], ids=("refused", "cut silently"))
def test_a_query_with_a_candidate_that_is_too_long_is_declined(*, obeys: bool) -> None:
    long = json.dumps({"query": "rain", "candidates": [{"id": "a", "text": "Rain."}, {"id": "b", "text": LONG}]})
    with ollama(OllamaStandIn(context=80, obeys=obeys)) as (_, api):
        declined, ranked = answer(api, [long, QUERY], RerankOptions()).outcomes

    assert isinstance(declined, Unanswered)
    assert (declined.code, "context" in declined.reason) == (Reason.DECLINED, True)
    assert isinstance(ranked, Ranking)


def test_a_query_in_whose_midst_the_server_fails_is_not_ranked_at_all() -> None:
    with serving(OllamaStandIn()) as api:
        good = api.behaviours[0]
        api.behaviours[:] = [*[good] * 6, says({"error": "terminated"}, 500)]  # five of opening, and one candidate
        found = only(answer(api, [QUERY], RerankOptions()).outcomes)

    assert isinstance(found, Unanswered)
    assert found.code is Reason.SERVER_ERROR


@pytest.mark.parametrize(
    ("server", "code", "sentence"),
    [
        (failing(version=(0, 12, 10)), Reason.OPEN_ERROR, "no log-probabilities; this needs version 0.12.11 or newer"),
        (failing(edit=change(CHAT, logprobs=None)), Reason.BAD_ANSWER, "which Ollama does since version 0.12.11"),
        (failing(likely=lambda _: {"The": 0.9}), Reason.OPEN_ERROR, "m cannot rank: neither Yes nor No"),
        (failing(thoughts="Let me"), Reason.OPEN_ERROR, "m cannot rank: the model thinks before it answers"),
        (failing(context=10), Reason.OPEN_ERROR, "cannot be asked Yes or No: it is longer than the model's context"),
    ],
    ids=("old", "no log-probabilities", "neither", "thinks", "tiny context"),
)
def test_a_model_that_cannot_rank_is_found_out_at_opening(
    server: Callable[[], OllamaStandIn], code: Reason, sentence: str
) -> None:
    with ollama(server()) as (_, api), pytest.raises(ProviderFailure) as failure:
        provider(api).open(job(RerankOptions()))

    assert failure.value.reason is code
    assert sentence in str(failure.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (ScoreOptions(), "no log-probabilities of the prompt, so it cannot score a text"),
        (ScoreOptions(pairs=True), "cannot score a text"),
        (RerankOptions(method=Method.PERPLEXITY), "--method perplexity"),
        (RerankOptions(template="{document} {query}"), "--template"),
        (RerankOptions(max_length=100), "--max-length"),
        (TranslateOptions(target_language="de", beam_size=4), "beam"),
        (RerankOptions(fusion=0.5), None),
        (TO_GERMAN, None),
    ],
)
def test_what_ollama_cannot_do_is_said_without_asking_it(options: Options, sentence: str | None) -> None:
    with serving(stalls) as api:
        why = provider(api).why_not(job(options))

        assert why is None if sentence is None else sentence in str(why)
        assert provider(api, ollama_host="").why_not(job(options)) == "no server is set: set ollama_host"
    assert api.requests == []


def test_doctor_asks_for_the_version() -> None:
    with ollama() as (_, api):
        check = provider(api).check()
    gone = provider(api).check()

    assert check.found == f"127.0.0.1:{api.port} answers"
    assert "no connection" in gone.found
    assert "ollama serve" in gone.mend
