"""The log-probabilities of a prompt, from servers that tell them in different ways, or wrongly, or not at all."""

import math
from typing import Any

import pytest

from jobs.providers import Reason
from tests.unit.worker.providers.openai_api.served_bigrams import ServedBigrams, nll_of, run
from worker.providers.http.client import RequestRefused
from worker.providers.openai_api.answers import Completion, read_completion
from worker.providers.openai_api.prompt_scores import PromptScorer, PromptScores, TextDeclined, Way
from worker.providers.protocol import ProviderFailure

TEXT = "It will rain in Arden, and it will be dry in Selby."


def score(server: ServedBigrams, text: str = TEXT) -> tuple[PromptScorer, PromptScores]:
    async def probe_and_score() -> tuple[PromptScorer, PromptScores]:
        scorer = await PromptScorer.probe(server.complete)
        return scorer, await scorer.score(text, server.complete)

    return run(probe_and_score())


@pytest.mark.parametrize(
    ("kind", "bos", "way", "has_first"),
    [
        ("echo", "none", Way.ECHO, False),
        ("echo", "hidden", Way.ECHO, True),
        ("late", "none", Way.LATE_ECHO, False),
        ("prompt", "none", Way.PROMPT, False),
        ("prompt", "shown", Way.PROMPT, True),
    ],
)
def test_every_way_gives_the_same_log_probabilities(kind: str, bos: str, way: Way, has_first: bool) -> None:
    scorer, found = score(ServedBigrams(kind, bos))

    assert scorer.way is way
    assert [(place.start, place.stop) for place in found.places] == [(n, n + 1) for n in range(len(TEXT))]
    assert (found.log_probs[0] is not None) is has_first
    nll = -math.fsum(one for one in found.log_probs if one is not None)
    assert nll == pytest.approx(nll_of(TEXT, bos=has_first))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("deaf", "does not return log-probabilities of a prompt"),
        ("wrong", "its scores cannot be relied on"),
    ],
)
def test_a_server_that_cannot_be_relied_on_is_refused(kind: str, says: str) -> None:
    with pytest.raises(ProviderFailure, match=says) as failure:
        score(ServedBigrams(kind))
    assert failure.value.reason is Reason.BAD_ANSWER


def test_a_token_that_is_withheld_is_a_bad_answer() -> None:
    with pytest.raises(ProviderFailure, match="withholds"):
        score(ServedBigrams("withholding"))


def test_a_text_of_one_token_has_no_score_without_a_bos() -> None:
    _, found = score(ServedBigrams("echo"), "I")

    assert list(found.log_probs) == [None]


def test_tables_of_first_tokens_are_asked_once() -> None:
    server = ServedBigrams("late")

    async def score_twice() -> int:
        scorer = await PromptScorer.probe(server.complete)
        await scorer.score(TEXT, server.complete)
        before = len(server.asked)
        await scorer.score(TEXT, server.complete)
        return len(server.asked) - before

    assert run(score_twice()) == 1


def test_an_empty_prompt_alone_is_streamed_and_before_the_first_document() -> None:
    """llama-cpp-python cuts an answer that it streams as soon as another request arrives."""
    for kind, bos, streamed in (("echo", "hidden", [""]), ("late", "none", [])):
        server = ServedBigrams(kind, bos)
        score(server)
        assert [body["prompt"] for body in server.asked if body.get("stream")] == streamed
        assert server.asked[-1]["prompt"] == (TEXT if bos == "hidden" else TEXT[0])


@pytest.mark.parametrize("refuses", [True, False])
def test_a_server_that_withholds_the_first_token_cannot_score(refuses: bool) -> None:
    class Withholding(ServedBigrams):
        async def complete(self, body: dict[str, Any]) -> Completion:
            if body["prompt"]:
                return await super().complete(body)
            if refuses:
                raise RequestRefused(400, "the prompt is empty")
            return read_completion({"choices": [{"text": "", "index": 0, "logprobs": None}]})

    with pytest.raises(ProviderFailure, match="first token") as failure:
        score(Withholding("echo", "hidden"))
    assert failure.value.reason is Reason.BAD_ANSWER


def test_tokens_of_another_text_decline_the_document_alone() -> None:
    class Other(ServedBigrams):
        """Lists what it was not sent."""

        async def complete(self, body: dict[str, Any]) -> Completion:
            return await super().complete({**body, "prompt": body["prompt"].replace("Selby", "Kelso")})

    with pytest.raises(TextDeclined, match="do not join"):
        score(Other("echo"))


def test_the_token_that_the_server_generates_is_not_scored() -> None:
    class Empty(ServedBigrams):
        """Generates a token whose text is empty: a part of a character, or a control token."""

        async def complete(self, body: dict[str, Any]) -> Completion:
            found = await super().complete(body)
            if found.listed is not None and body.get("echo") and body["prompt"] == TEXT:
                assert isinstance(found.listed.texts, list)
                found.listed.texts[-1] = ""
            return found

    _, found = score(Empty("echo"))

    assert len(found.log_probs) == len(TEXT)


@pytest.mark.parametrize("number", [2, 3])
def test_parts_of_a_character_decline_a_document_where_tables_are_by_the_texts_of_tokens(number: int) -> None:
    class Parts(ServedBigrams):
        """Lists the document as parts of one character."""

        async def complete(self, body: dict[str, Any]) -> Completion:
            if body["prompt"] != "雨":
                return await super().complete(body)
            assert body.get("echo"), "the first token is no text that could be asked about"
            tokens = {"tokens": [""] * number, "token_logprobs": [None, *[-1.0] * (number - 1)], "top_logprobs": None}
            choice = {"text": "", "index": 0, "finish_reason": "length", "logprobs": tokens}
            return read_completion({"choices": [choice], "usage": {"prompt_tokens": number}})

    with pytest.raises(TextDeclined, match="parts of a character"):
        score(Parts("late"), "雨")


@pytest.mark.parametrize(("status", "error"), [(400, RequestRefused), (500, ProviderFailure)])
def test_a_server_that_refuses_log_probabilities_cannot_score(status: int, error: type[Exception]) -> None:
    """llama-cpp-python that was started with --logits_all false answers with HTTP 500."""

    class Refusing(ServedBigrams):
        async def complete(self, body: dict[str, Any]) -> Completion:
            if error is RequestRefused:
                raise RequestRefused(status, "logprobs is not supported")
            raise ProviderFailure(Reason.SERVER_ERROR, "failed (HTTP 500: logprobs is not supported)")

    with pytest.raises(ProviderFailure, match=r"log-probabilities .*prompt") as failure:
        score(Refusing("echo"))
    assert failure.value.reason is Reason.BAD_ANSWER


def test_a_server_that_lists_no_whole_vocabulary_cannot_score_late() -> None:
    class FewListed(ServedBigrams):
        async def complete(self, body: dict[str, Any]) -> Completion:
            if not body.get("echo") and body["logprobs"] > 5:
                raise RequestRefused(400, "logprobs must be at most 5")
            return await super().complete(body)

    with pytest.raises(ProviderFailure, match="at most 5") as failure:
        score(FewListed("late"))
    assert failure.value.reason is Reason.BAD_ANSWER
