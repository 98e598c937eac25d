"""What is asked of an Ollama server before the first document, and what is known without asking."""

from collections.abc import Callable

import pytest

from jobs.outcome import Translation
from jobs.providers import Reason
from jobs.tasks.kinds import Options
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.translate import TranslateOptions
from tests.ollama_stand_in import OllamaStandIn, ollama
from tests.processes.providers.ollama_asked import (
    CHAT,
    LONG,
    TEXTS,
    TO_GERMAN,
    answer,
    change,
    failing,
    job,
    only,
    provider,
)
from tests.rows import batch_of
from tests.scripted_api import says, serving, stalls
from worker.engine.runtime.run_context import RunContext
from worker.providers.http.document_requests import TooLong
from worker.providers.protocol import ProviderFailure

pytestmark = pytest.mark.usefixtures("ollama_closed")


def test_the_model_is_loaded_once_before_the_first_document_by_all_lanes() -> None:
    with ollama() as (server, api):
        lane = provider(api).new_lane()
        lane.open(job())
        before = [request.path for request in api.requests], server.num_loads
        lane.open(job())
        lane.process(job(), batch_of(TEXTS), RunContext())

    assert before == (["/api/version", "/api/show", "/api/generate", "/api/ps"], 1)
    assert [request.path for request in api.requests[4:]] == ["/api/chat", "/api/chat"]
    assert server.num_loads == 1


def test_a_server_that_unloads_at_once_answers_too() -> None:
    with ollama() as (_, api):
        assert only(answer(api, [TEXTS[0]], ollama_keep_alive="0s").outcomes).text == "RAIN IN ARDEN."


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
    assert "Ollama server" in str(failure.value)


def test_an_embedding_model_of_a_server_that_lists_no_capabilities_is_refused_by_the_server() -> None:
    server = OllamaStandIn(models={"m:latest": ()}, edit=change("/api/show", capabilities=None))
    with ollama(server) as (_, api), pytest.raises(ProviderFailure, match=r"not .*generate") as failure:
        provider(api).open(job())
    assert failure.value.reason is Reason.OPEN_ERROR


def test_a_server_that_comes_back_is_asked_anew_what_it_is() -> None:
    with ollama(OllamaStandIn(edit=change(CHAT, done=False))) as (server, api):
        lane = provider(api).new_lane()
        lane.open(job())
        lane.process(job(), batch_of(TEXTS), RunContext())
        server.edit = lambda _, answer: answer
        server.context = 60
        lane.open(job())
        found = lane.process(job(), batch_of([LONG, TEXTS[0]]), RunContext()).outcomes

    assert [type(one) for one in found] == [TooLong, Translation]
    assert [request.path for request in api.requests].count("/api/ps") == 2


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
