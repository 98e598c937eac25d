"""The provider openai ranks by the server's own endpoint, or by log-probabilities."""

import json
import time
from typing import Any

import pytest

from jobs.answers import Unanswered
from jobs.outcome import Ranking
from jobs.providers import Reason
from tests.openai_stand_in import OpenAIStandIn
from tests.processes.providers.openai_asked import (
    RERANK,
    TEXTS,
    always,
    asking,
    only,
    provider,
)
from tests.scripted_api import Request, serving
from worker.providers.protocol import ProviderFailure

QUERY = {"query": "rain", "candidates": [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]}


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
    assert (refused.code, "longer" in refused.reason) == (Reason.DECLINED, True)
    assert len(api.requests) - before <= 6
