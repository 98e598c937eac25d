"""Answers of Ollama, read: whole ones, half ones, and what is no answer."""

from typing import Any

import pytest

from jobs.providers import Reason
from worker.providers.ollama_api.answers import (
    GeneratedToken,
    check_loaded,
    is_same_model,
    read_capabilities,
    read_chat,
    read_context,
    read_version,
)
from worker.providers.protocol import ProviderFailure

WHOLE: dict[str, Any] = {
    "model": "m",
    "created_at": "2025-11-22T00:00:00Z",
    "message": {"role": "assistant", "content": "Regen."},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 12,
    "eval_count": 3,
    "logprobs": [{"token": "Regen", "logprob": -0.5, "bytes": [82]}, {"token": ".", "logprob": -0.25}],
}
MESSAGE = {"role": "assistant"}


def test_a_whole_answer_is_read_with_its_counts_and_log_probabilities() -> None:
    reply = read_chat(WHOLE, "m")

    assert (reply.text, reply.thoughts, reply.reached_limit) == ("Regen.", "", False)
    assert (reply.num_prompt_tokens, reply.num_completion_tokens) == (12, 3)
    assert reply.tokens == [GeneratedToken("Regen", -0.5, []), GeneratedToken(".", -0.25, [])]


def test_fields_that_ollama_leaves_out_are_nothing() -> None:
    """Its JSON has no counts of 0 and no empty lists."""
    short = {name: WHOLE[name] for name in ("model", "message", "done")} | {"done_reason": "length"}
    reply = read_chat(short, "m:latest")

    assert (reply.num_prompt_tokens, reply.num_completion_tokens, reply.tokens) == (0, 0, None)
    assert reply.reached_limit


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"done": False}, "half an answer: done is not true"),
        ({"done": "true"}, "half an answer"),
        ({"done_reason": "load"}, "done_reason 'load'"),
        ({"done_reason": None}, "may be half an answer"),
        ({"model": "n"}, "is of the model 'n', not of 'm'"),
        ({"model": None}, "is of the model 'None'"),
        ({"message": "Regen."}, "no message with a text"),
        ({"message": MESSAGE}, "no message with a text"),
        ({"message": MESSAGE | {"content": None}}, "no message with a text"),
        ({"message": MESSAGE | {"content": "a", "thinking": 1}}, "thinking that is not a text"),
        ({"prompt_eval_count": -1}, "prompt_eval_count that is not a number of tokens"),
        ({"eval_count": True}, "eval_count that is not a number of tokens"),
        ({"eval_count": 1.5}, "eval_count that is not"),
        ({"logprobs": {"token": "a"}}, "logprobs that are not a list"),
        ({"logprobs": [1]}, "a token that is not a text"),
        ({"logprobs": [{"token": "a"}]}, "not a number below 0"),
        ({"logprobs": [{"token": "a", "logprob": 0.5}]}, "not a number below 0"),
        ({"logprobs": [{"token": "a", "logprob": float("nan")}]}, "not a number below 0"),
        ({"logprobs": [{"token": "a", "logprob": -1, "top_logprobs": {}}]}, "top_logprobs that are not a list"),
        ({"logprobs": [{"token": "a", "logprob": -1, "top_logprobs": [None]}]}, "a token that is not a text"),
    ],
)
def test_any_other_form_is_a_bad_answer(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ProviderFailure) as failure:
        read_chat(WHOLE | change, "m")

    assert failure.value.reason is Reason.BAD_ANSWER
    assert says in str(failure.value)


@pytest.mark.parametrize("value", [None, [], "Regen.", 5])
def test_what_is_no_object_is_a_bad_answer(value: Any) -> None:
    for read in (read_version, read_capabilities):
        with pytest.raises(ProviderFailure):
            read(value)
    for read_of in (read_chat, read_context, check_loaded):
        with pytest.raises(ProviderFailure):
            read_of(value, "m")


def test_versions_are_compared_as_numbers() -> None:
    assert read_version({"version": "0.12.11"}) > read_version({"version": "0.12.6-rc1"}) == (0, 12, 6)
    with pytest.raises(ProviderFailure, match=r"no version .*Ollama"):
        read_version({"version": "latest"})


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("m", "m:latest", True),
        ("M", "m", True),
        ("m:7b", "m", False),
        ("hf.co:443/u/m", "hf.co:443/u/m:latest", True),
        (None, "m", False),
    ],
)
def test_a_name_without_a_tag_means_the_latest(name: Any, other: str, *, same: bool) -> None:
    assert is_same_model(name, other) is same


def test_the_context_is_that_of_the_model_that_is_loaded() -> None:
    models = [{"name": "n:latest", "context_length": 7}, {"name": "m:latest", "context_length": 4096}, "?"]

    assert read_context({"models": models}, "m") == 4096
    assert read_context({"models": models}, "o") is None
    assert read_context({"models": [{"model": "m"}]}, "m") is None  # an older server


def test_a_model_is_loaded_where_the_server_says_so() -> None:
    check_loaded({"model": "m", "done": True, "done_reason": "load"}, "m")
    check_loaded({"model": "m", "done": True, "done_reason": "unload"}, "m")
    with pytest.raises(ProviderFailure, match="to be loaded"):
        check_loaded({"model": "m", "done": True, "done_reason": "stop"}, "m")
