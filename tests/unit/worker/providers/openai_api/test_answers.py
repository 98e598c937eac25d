"""Answers of servers are read strictly: each wrong shape is a `bad-answer`, never an exception of another kind."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.providers import Reason
from worker.providers.openai_api.answers import (
    TokenUsage,
    read_chat,
    read_completion,
    read_model_names,
    read_ranking,
    read_usage,
)
from worker.providers.protocol import ProviderFailure

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "text", "message", "content", "logprobs", "tokens", "token_logprobs", "results"]
            )
            | st.sampled_from(["index", "relevance_score", "top_logprobs", "prompt_logprobs", "logprob", "usage"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def listed(**values: Any) -> dict[str, Any]:
    tokens = {"tokens": ["a", "b"], "token_logprobs": [None, -0.5], "top_logprobs": [None, {"b": -0.5}]}
    return {"choices": [{"text": "ab", "logprobs": tokens | values}], "usage": {"prompt_tokens": 2}}


def test_a_right_completion_is_read() -> None:
    found = read_completion(listed())

    assert found.listed is not None
    assert (found.text, found.usage, found.listed.log_probs) == ("ab", TokenUsage(2, 0), [None, -0.5])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "no choices"),
        ([], "no choices"),
        ({"choices": []}, "0 choices"),
        ({"choices": [{"text": "a"}, {"text": "b"}]}, "2 choices"),
        ({"choices": [{"text": 5}]}, "no text"),
        (listed(token_logprobs=[None]), "different numbers"),
        (listed(token_logprobs="x"), "different numbers"),
        (listed(token_logprobs=[None, "x"]), "not a number"),
        (listed(token_logprobs=[None, 0.5]), "not a number below 0"),
        (listed(token_logprobs=[None, float("nan")]), "not a number"),
        (listed(token_logprobs=[None, float("-inf")]), "not a number"),
        (listed(token_logprobs=[None, True]), "not a number"),
        (listed(token_logprobs=[None, -1e300]), "not a number"),  # a few of them would overflow a sum
        (listed(tokens=["a", 5]), "not texts"),
        ({"choices": [{"text": "", "prompt_logprobs": {}}]}, "not a list"),
        ({"choices": [{"text": "", "prompt_logprobs": [{"5": {}}]}]}, "without a log-probability"),
    ],
)
def test_a_wrong_completion_says_what_is_wrong(value: Any, says: str) -> None:
    with pytest.raises(ProviderFailure, match=says) as failure:
        read_completion(value)
    assert failure.value.reason is Reason.BAD_ANSWER


@given(JSON)
def test_any_json_is_read_or_is_a_bad_answer(value: Any) -> None:
    for read in (read_completion, read_chat, lambda one: read_ranking(one, 2)):
        with suppress(ProviderFailure):
            read(value)
    assert read_usage(value).prompt >= 0
    read_model_names(value)


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ([{"index": 0, "relevance_score": 1.0}], "ranks 1 of 2"),
        ([{"index": 0, "relevance_score": 1.0}] * 2, "one twice"),
        ([{"index": 2, "relevance_score": 1.0}], "was not sent"),
        ([{"index": True, "relevance_score": 1.0}], "was not sent"),
        ([{"index": 0, "relevance_score": None}], "not a finite number"),
        ([{"index": 0, "relevance_score": float("nan")}], "not a finite number"),
    ],
)
def test_a_ranking_has_every_document_once(results: list[Any], says: str) -> None:
    with pytest.raises(ProviderFailure, match=says):
        read_ranking({"results": results}, 2)


def test_a_ranking_may_come_in_any_order() -> None:
    ranked = {"results": [{"index": 1, "relevance_score": 0.5}, {"index": 0, "score": -3}]}

    assert read_ranking(ranked, 2) == [-3.0, 0.5]


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": -1}, {"prompt_tokens": "9"}, {"prompt_tokens": 1 << 60}])
def test_wrong_counts_of_tokens_are_none(usage: Any) -> None:
    assert read_usage({"usage": usage}) == TokenUsage(0, 0)
