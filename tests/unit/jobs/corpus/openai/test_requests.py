"""Requests of a batch file as documents, and requests that are refused with the name of their field."""

import io
import json
from typing import Any

import orjson
import pytest

from jobs.corpus.openai.request_kind import RequestKind
from jobs.corpus.openai.requests import Requests, put_request_back, read_requests
from jobs.documents import Document, Record, Reject, Rejected
from jobs.tasks.generate import GenerateOptions

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Will it rain?"}]
CHAT = Requests(kind=RequestKind.CHAT, model="m")
TRANSLATE = Requests(kind=RequestKind.TRANSLATION, model="m")
PROMPT = Requests(kind=RequestKind.COMPLETION, model="m")
ECHO = Requests(kind=RequestKind.ECHO, model="m")
RERANK = Requests(kind=RequestKind.RERANK, model="m")
SCORE = Requests(kind=RequestKind.SCORE, model="m")
ASKED: dict[str, tuple[Requests, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": MESSAGES}),
    "translate": (TRANSLATE, {"messages": MESSAGES}),
    "prompt": (PROMPT, {"prompt": "Snow will"}),
    "echo": (ECHO, {"prompt": "Snow will", "echo": True, "logprobs": 1, "max_tokens": 0}),
    "rerank": (RERANK, {"query": "rain", "documents": ["a", "b"]}),
    "score": (SCORE, {"text_1": "rain", "text_2": ["a", "b"]}),
}
OF_TASKS = pytest.mark.parametrize(("requests", "body"), ASKED.values(), ids=ASKED)


def line(body: dict[str, Any], requests: Requests = CHAT, **more: Any) -> dict[str, Any]:
    whole = {"custom_id": "r1", "method": "POST", "url": requests.kind.endpoint.value, "body": {"model": "m", **body}}
    return whole | more


def read(requests: Requests, *lines: dict[str, Any] | bytes) -> list[Record]:
    data = b"".join((text if isinstance(text, bytes) else json.dumps(text).encode()) + b"\n" for text in lines)
    return list(read_requests(io.BufferedReader(io.BytesIO(data)), 1 << 20, requests))  # type: ignore[arg-type]


def document(requests: Requests, body: dict[str, Any], **more: Any) -> Document:
    (found,) = read(requests, line(body, requests, **more))
    assert isinstance(found, Document), found
    return found


def refused(requests: Requests, body: dict[str, Any], **more: Any) -> str:
    (found,) = read(requests, line(body, requests, **more))
    assert isinstance(found, Rejected), found
    return found.reason


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("chat", {"messages": MESSAGES}),
        ("prompt", {"text": "Snow will"}),
        ("rerank", {"query": "rain", "candidates": [{"id": "0", "text": "a"}, {"id": "1", "text": "b"}]}),
        ("score", {"query": "rain", "candidates": [{"id": "0", "text": "a"}, {"id": "1", "text": "b"}]}),
    ],
)
def test_a_request_is_a_document_named_by_its_custom_id(name: str, payload: dict[str, Any]) -> None:
    found = document(*ASKED[name])

    assert (found.external_id, orjson.loads(found.text)) == ("r1", payload)


@pytest.mark.parametrize(("name", "text"), [("translate", "Will it rain?"), ("echo", "Snow will")])
def test_what_is_translated_and_what_is_scored_is_a_text(name: str, text: str) -> None:
    assert document(*ASKED[name]).text == text


@OF_TASKS
def test_a_line_can_be_written_again_from_what_a_job_stores(requests: Requests, body: dict[str, Any]) -> None:
    found = document(requests, body, extra=[1])
    again = put_request_back(json.loads(found.fields or "{}"), found.text, requests.kind)

    assert {"custom_id": "r1", **again} == line(body, requests, extra=[1])


def test_the_options_of_a_request_are_those_of_its_document() -> None:
    body = {"max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "seed": -1, "stop": "\n", "user": "u"}

    found = document(CHAT, {"messages": MESSAGES, **body})

    assert orjson.loads(found.text)["options"] == {
        "max_new_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 0,
        "seed": 2**63 - 1,
        "stop": ["\n"],
    }


def test_numbers_that_json_writes_in_another_way_are_options_all_the_same() -> None:
    text = json.dumps(line({"messages": MESSAGES})).replace('"model"', '"temperature": 5e-1, "top_p": 0.90, "model"')

    (found,) = read(CHAT, text.encode())

    assert isinstance(found, Document)
    options = orjson.loads(found.text)["options"]
    assert (options["temperature"], options["top_p"]) == (0.5, 0.9)
    assert '"top_p":0.90' in (found.fields or "")  # as it was written


def test_greedy_search_takes_a_top_p_that_changes_nothing() -> None:
    options = orjson.loads(document(CHAT, {"messages": MESSAGES, "temperature": 0, "top_p": 0.1}).text)["options"]

    assert options == {"temperature": 0, "top_p": 1, "top_k": 0}


def test_a_top_p_alone_draws_at_the_temperature_that_is_openais_default() -> None:
    assert orjson.loads(document(CHAT, {"messages": MESSAGES, "top_p": 0.1}).text)["options"]["temperature"] == 1


@pytest.mark.parametrize(("default", "body"), [(0.0, {"temperature": 1}), (0.7, {})])
def test_equal_requests_whose_tokens_are_drawn_have_seeds_of_their_own(default: float, body: dict[str, Any]) -> None:
    requests = Requests(kind=RequestKind.CHAT, model="m", options=GenerateOptions(temperature=default))
    lines = [line({"messages": MESSAGES, **body}, custom_id=name) for name in "abc"]

    seeds = [orjson.loads(found.text)["options"]["seed"] for found in read(requests, *lines)]  # type: ignore[arg-type]

    assert len(set(seeds)) == 3
    assert seeds == [orjson.loads(found.text)["options"]["seed"] for found in read(requests, *lines)]  # type: ignore[arg-type]


HARMLESS: list[dict[str, Any]] = [
    {"n": 1, "stream": False, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "user": "u"},
    {"metadata": {"a": "b"}, "store": True, "service_tier": "auto", "tools": [], "tool_choice": "none"},
    {"response_format": {"type": "text"}, "logprobs": False, "top_logprobs": 0, "stop": None, "seed": None},
    {"max_tokens": None, "unheard_of": None, "parallel_tool_calls": True, "repetition_penalty": 1.0, "min_p": 0},
]


@pytest.mark.parametrize("body", HARMLESS)
def test_a_field_that_changes_nothing_may_be_there(body: dict[str, Any]) -> None:
    assert "options" not in orjson.loads(document(CHAT, {"messages": MESSAGES, **body}).text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("n", True),
        ("stream", True),
        ("presence_penalty", 0.5),
        ("logit_bias", {"50256": -100}),
        ("tools", [{"type": "function"}]),
        ("response_format", {"type": "json_object"}),
        ("logprobs", True),
        ("top_logprobs", 5),
        ("reasoning_effort", "high"),
        ("guided_json", {}),
        ("max_tokens", 0),
        ("max_tokens", "many"),
        ("max_completion_tokens", 1.5),
        ("temperature", -1),
        ("temperature", 1e-9),
        ("temperature", "hot"),
        ("top_p", 2),
        ("top_k", 1.5),
        ("seed", "x"),
        ("stop", [1]),
        ("stop", [str(number) for number in range(40)]),
        ("messages", []),
        ("messages", "hello"),
        ("model", "other"),
        ("model", None),
        ("model", 7),
    ],
)
def test_a_field_that_is_not_done_is_refused_by_its_name(field: str, value: Any) -> None:
    assert refused(CHAT, {"messages": MESSAGES, field: value}).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("translate", "temperature", 0.5),
        ("translate", "max_tokens", 5),
        ("translate", "messages", [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]),
        ("prompt", "prompt", ["a", "b"]),
        ("prompt", "prompt", [1, 2]),
        ("prompt", "prompt", " "),
        ("prompt", "prompt", "a\0b"),
        ("prompt", "logprobs", 1),
        ("prompt", "suffix", "x"),
        ("prompt", "echo", True),
        ("echo", "echo", False),
        ("echo", "logprobs", 5),
        ("echo", "max_tokens", 1),
        ("echo", "max_tokens", None),
        ("rerank", "query", None),
        ("rerank", "documents", []),
        ("rerank", "documents", [{"image": "x"}]),
        ("rerank", "top_n", -1),
        ("rerank", "temperature", 1),
        ("score", "text_1", ["a", "b"]),
        ("score", "text_2", 7),
    ],
)
def test_each_endpoint_refuses_what_it_does_not_do(name: str, field: str, value: Any) -> None:
    requests, body = ASKED[name]

    assert refused(requests, {**body, field: value}).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "GET"),
        ("url", ...),
        ("url", 5),
        ("url", "/v1/embeddings"),
        ("url", "/v1/completions"),
        ("body", ...),
        ("body", "x"),
        ("custom_id", ...),
        ("custom_id", ""),
    ],
)
def test_a_line_that_is_no_request_of_the_batch_is_refused_by_its_field(field: str, value: Any) -> None:
    whole = {**line({"messages": MESSAGES}), field: value}

    (found,) = read(CHAT, {name: part for name, part in whole.items() if part is not ...})

    assert isinstance(found, Rejected)
    assert found.reason.startswith(f"{field}: ")


@pytest.mark.parametrize("url", ["/v1/rerank", "/rerank", "/v2/rerank"])
def test_vllm_has_several_addresses_for_one_endpoint(url: str) -> None:
    assert document(RERANK, {"query": "rain", "documents": [{"text": "a"}]}, url=url).external_id == "r1"


def test_a_model_that_the_command_names_answers_requests_for_any() -> None:
    requests = Requests(kind=RequestKind.CHAT, model=None)

    assert document(requests, {"messages": MESSAGES, "model": "gpt-4o-mini"}).external_id == "r1"


def test_a_translation_takes_a_limit_that_it_cannot_reach() -> None:
    requests, body = ASKED["translate"]

    assert document(requests, {**body, "max_tokens": 1000, "temperature": 0}).text == "Will it rain?"


def test_lines_that_no_reader_understands_are_rejected_alone() -> None:
    bad = [b"{", b"[1]", b'{"custom_id": "x", "body": ' + b"[" * 5000, b"\xff\xfe", b'{"custom_id": "\\ud800"}']

    found = read(CHAT, *bad, line({"messages": MESSAGES}))

    assert [type(record) for record in found] == [Rejected] * 5 + [Document]
    assert found[0].code == Reject.BAD_JSON  # type: ignore[union-attr]
