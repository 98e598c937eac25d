"""Chat answers in the form that each kind of server gives them: what of it is the log-probability of the text."""

from typing import Any

import pytest

from worker.providers.openai_api.answers import read_chat


def chat(content: Any, text: str = "Rain.", **message: Any) -> Any:
    said = {"role": "assistant", "content": text, **message}
    return {"choices": [{"message": said, "finish_reason": "stop", "logprobs": {"content": content}}]}


def token(text: str, log_prob: float, part: bytes | None = None) -> dict[str, Any]:
    return {"token": text, "logprob": log_prob, "bytes": None if part is None else list(part)}


def encoded(text: str, log_prob: float) -> dict[str, Any]:
    """As vLLM and others make a token: its bytes are those of its text, also where the text is a stand-in for parts of
    a character."""
    return token(text, log_prob, text.encode())


END = "<|im_end|>"
RAIN = "雨".encode()


@pytest.mark.parametrize(
    ("text", "content"),
    [
        pytest.param("Rain.", [token("Ra", -0.5, b"Ra"), token("in.", -1.0, b"in.")], id="OpenAI"),
        pytest.param(
            "雨。",
            [token("\\xe9\\x9b", -0.5, RAIN[:2]), token("\\xa8", -0.5, RAIN[2:]), token("。", -1.0, "。".encode())],
            id="OpenAI, parts of a character",
        ),
        pytest.param("Rain.", [encoded("Ra", -0.5), encoded("in.", -1.0), encoded(END, -0.1)], id="vLLM"),
        pytest.param(
            "雨。",
            [encoded("", -0.5), encoded("", -0.5), encoded("雨", -0.5), encoded("。", -1.0), encoded(END, -0.1)],
            id="vLLM, parts of a character",
        ),
        pytest.param(
            "雨。", [encoded("\ufffd", -0.5), encoded("\ufffd", -0.5), encoded("。", -1.0)], id="TensorRT-LLM, no end"
        ),
        pytest.param(
            "雨。",
            [encoded("\ufffd", -0.5), encoded("\ufffd", -0.5), encoded("。", -1.0), encoded(END, -0.1)],
            id="TensorRT-LLM",
        ),
        pytest.param(
            "雨。", [token("", -0.5, b""), token("雨", -0.5, RAIN), token("。", -1.0, "。".encode())], id="llama.cpp"
        ),
        pytest.param("雨。", [token("", -0.5), token("", -0.5), token("。", -1.0)], id="llama-cpp-python"),
        pytest.param("Rain.", [token("Ra", -0.5), token("in.", -1.0)], id="no bytes"),
        pytest.param("Rain.", [token("Rain.", -0.5), token(END, -1.0)], id="no bytes, with the end"),
        pytest.param(
            "雨",
            [token("\\xe9\\x9b", -0.5, RAIN[:2]), token("\\xa8", -0.5, RAIN[2:]), token(END, -0.1)],
            id="bytes, but of the end",
        ),
        pytest.param(
            "雨",
            [token("<0xE9>", -0.5, RAIN[:1]), token("<0x9BA8>", -0.5, RAIN[1:]), encoded(END, -0.1)],
            id="names of bytes, and the end",
        ),
        pytest.param(
            " Rain.\n", [token("Rain", -0.5), token(".", -1.0)], id="a text that is not stripped, as its tokens are"
        ),
        pytest.param(
            "雨",
            [token("\\xe9\\x9b", -0.5, b" " + RAIN[:2]), token("\\xa8", -0.5, RAIN[2:] + b"\n")],
            id="a text that is stripped, as its bytes are not",
        ),
    ],
)
def test_every_log_probability_counts_where_the_tokens_join_to_the_text(text: str, content: list[Any]) -> None:
    assert read_chat(chat(content, text)).log_probs == [one["logprob"] for one in content]


@pytest.mark.parametrize(
    "content",
    [
        [token("Ra", -0.5), {"token": "in."}],
        [token("Ra", -0.5), {"logprob": -0.5}],
        [token("Let me think. ", -0.5), token("So: ", -0.5), token("Rain.", -1.0)],
        [encoded("Let me think. ", -0.5), encoded("Rain.", -1.0), encoded(END, -0.1)],
        [encoded("Rain.", -0.5), encoded(" Snow", -0.5), encoded(".", -1.0)],  # one token alone may be the end
        [{"token": "Snow.", "logprob": -0.5, "bytes": [1, 2, 300]}, token("!", -0.1)],
        [{"token": "Snow.", "logprob": -0.5, "bytes": "Rain."}],
        [],
        None,
    ],
    ids=(
        "no log-probability",
        "no token",
        "thoughts",
        "thoughts with bytes",
        "two tokens more",
        "not bytes",
        "a text as bytes",
        "empty",
        "none",
    ),
)
def test_log_probabilities_of_something_else_than_the_text_are_none(content: Any) -> None:
    assert read_chat(chat(content)).log_probs is None


def test_tokens_without_bytes_are_no_text_that_is_empty() -> None:
    assert read_chat(chat([token("Let me ", -0.5), token("think", -0.5)], text="")).log_probs is None


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_in_a_field_of_their_own_are_seen(field: str) -> None:
    assert read_chat(chat(None, **{field: "Rain is Regen."})).has_thoughts
    assert not read_chat(chat(None, **{field: None})).has_thoughts
