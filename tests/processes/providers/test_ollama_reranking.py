"""The provider ollama ranks by an answer Yes or No: of its server, and of servers that list something else."""

import json
import math
from collections.abc import Callable

import pytest

from jobs.answers import Unanswered
from jobs.outcome import Flag, Ranking
from jobs.providers import Reason
from jobs.tasks.rerank import RerankOptions
from tests.messages import line_with
from tests.ollama_stand_in import OllamaStandIn, likely_answers, ollama
from tests.processes.providers.ollama_asked import (
    CHAT,
    LONG,
    answer,
    change,
    failing,
    job,
    only,
    provider,
)
from tests.scripted_api import says, serving
from worker.providers.protocol import ProviderFailure

pytestmark = pytest.mark.usefixtures("ollama_closed")
CANDIDATES = {"a": "Snow in Kelso.", "b": "It will rain in Arden.", "c": "Rain."}
QUERY = json.dumps(
    {"query": "rain in Arden", "candidates": [{"id": one, "text": text} for one, text in CANDIDATES.items()]}
)


def test_candidates_are_ranked_by_the_answer_yes_or_no() -> None:
    with ollama() as (server, api):
        found = answer(api, [QUERY], RerankOptions())

    ranking = only(found.outcomes)
    assert isinstance(ranking, Ranking)
    assert [one.id for one in ranking.candidates] == ["b", "a", "c"]
    probabilities = [0.95, 0.05 + 0.9 / 3, 0.05 + 0.9 / 3]  # of Yes: all words of the query, "rain", "in"
    assert [one.score for one in ranking.candidates] == pytest.approx([math.log(p / (1 - p)) for p in probabilities])
    assert (ranking.flags, ranking.num_tokens) == ((), 3)
    (usage,) = found.usage
    assert (usage.requests, usage.completion_tokens) == (3, 3)  # the question at opening is not the job's
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
    assert "no value" in str(first.error)
    assert [one.id for one in others] == ["b", "c"]
    assert ranking.flags == (Flag.KEPT_ORDER,)


def test_a_query_none_of_whose_candidates_has_a_score_is_declined() -> None:
    def silent(prompt: str) -> dict[str, float]:
        return likely_answers(prompt) if "Friday" in prompt else {"The": 0.9}

    with ollama(OllamaStandIn(likely=silent)) as (_, api):
        found = only(answer(api, [QUERY], RerankOptions()).outcomes)

    assert isinstance(found, Unanswered)
    assert found.code is Reason.DECLINED
    assert line_with(found.reason, "Yes", "No", "20")


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
