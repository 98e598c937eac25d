"""The output lines of OpenAI's Batch API: an answer for each request, and an error object for each that has none."""

import json
from typing import Any

import pytest

from jobs.corpus.openai.request_kind import RequestKind
from jobs.documents import Document, Rejected, duplicate
from jobs.export.openai_lines import OpenAILines
from jobs.store.report.documents.export import ExportedDocument

USAGE = {"num_prompt_tokens": 5, "num_new_tokens": 3, "num_shared": 2}
RANKED = [{"id": "1", "rank": 1, "score": -0.5}, {"id": "0", "rank": 2, "score": None, "error": "why"}]
QUERY = {"query": "q", "candidates": [{"id": "0", "text": "a"}, {"id": "1", "text": "b"}]}


def document(**values: Any) -> ExportedDocument:
    given = {"position": 4, "external_id": "r1", "numeric_id": False, "unnamed": False, "line": 5, "fields": None}
    given |= {"error_code": None, "error": None, "text": None, "next_line": None, "status": "ok", "result": {}}
    return ExportedDocument(**{**given, **values})


def written(kind: RequestKind, **values: Any) -> dict[str, Any]:
    line = OpenAILines(kind, "m", 7, 1700000000).line(document(**values))
    assert line.endswith(b"\n")
    found: dict[str, Any] = json.loads(line)
    return found


def body(kind: RequestKind, **values: Any) -> dict[str, Any]:
    line = written(kind, **values)
    assert (line["custom_id"], line["error"], line["response"]["status_code"]) == ("r1", None, 200)
    found: dict[str, Any] = line["response"]["body"]
    return found


@pytest.mark.parametrize(("flags", "reason"), [("", "stop"), ("truncated", "length")])
def test_a_chat_is_answered_by_a_message_of_the_assistant(flags: str, reason: str) -> None:
    found = body(RequestKind.CHAT, result={"text": "It rains.", "flags": flags, **USAGE})

    assert (found["object"], found["model"], found["created"]) == ("chat.completion", "m", 1700000000)
    assert found["choices"][0]["message"] == {"role": "assistant", "content": "It rains.", "refusal": None}
    assert found["choices"][0]["finish_reason"] == reason
    assert found["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 2},
    }


@pytest.mark.parametrize(("flags", "reason"), [("", "stop"), ("split truncated", "length")])
def test_a_translation_is_the_answer_to_a_chat(flags: str, reason: str) -> None:
    result = {"text": "下雨。", "flags": flags, "num_source_tokens": 4, "num_target_tokens": 6}

    found = body(RequestKind.TRANSLATION, result=result)

    assert (found["choices"][0]["message"]["content"], found["choices"][0]["finish_reason"]) == ("下雨。", reason)
    assert found["usage"] == {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}


def test_an_echo_has_the_log_probability_of_each_token_and_where_it_begins_in_characters() -> None:
    tokens = [
        {"text": "雨", "start": 0, "stop": 3, "log_prob": None},
        {"text": " a", "start": 3, "stop": 5, "log_prob": -1.5},
        {"text": "é", "start": 5, "stop": 7, "log_prob": -2.0},
    ]

    found = body(
        RequestKind.ECHO,
        text="雨 aé",
        result={"token_scores": json.dumps(tokens), "num_tokens": 2, "num_source_tokens": 0},
    )

    assert found["choices"][0]["text"] == "雨 aé"
    assert found["choices"][0]["logprobs"] == {
        "tokens": ["雨", " a", "é"],
        "token_logprobs": [None, -1.5, -2.0],
        "top_logprobs": None,
        "text_offset": [0, 1, 3],
    }


@pytest.mark.parametrize(
    ("asked", "results"),
    [
        (
            {},
            [
                {"index": 1, "document": {"text": "b"}, "relevance_score": -0.5},
                {"index": 0, "document": {"text": "a"}, "relevance_score": None, "error": "why"},
            ],
        ),
        ({"top_n": 1, "return_documents": False}, [{"index": 1, "relevance_score": -0.5}]),
    ],
)
def test_a_ranking_is_best_first_and_as_long_as_it_was_asked_for(asked: dict[str, Any], results: list[Any]) -> None:
    found = body(
        RequestKind.RERANK,
        text=json.dumps(QUERY),
        fields=json.dumps({"body": asked}),
        result={"candidates": json.dumps(RANKED), "num_tokens": 9, "num_computed": 12},
    )

    assert (found["results"], found["usage"]["total_tokens"]) == (results, 9)


def test_scores_are_in_the_order_of_the_texts() -> None:
    found = body(
        RequestKind.SCORE,
        text=json.dumps(QUERY),
        result={"candidates": json.dumps(RANKED), "num_tokens": 9, "num_computed": 12},
    )

    assert [(item["index"], item["score"]) for item in found["data"]] == [(0, None), (1, -0.5)]


@pytest.mark.parametrize(
    ("status", "code", "reason", "expected"),
    [
        ("rejected", "bad-request", "n: no", (400, "invalid_request_error", "n", "bad_request")),
        ("rejected", "bad-json", "line: no", (400, "invalid_request_error", None, "bad_json")),
        ("failed", "too-long", "9 tokens", (400, "invalid_request_error", None, "context_length_exceeded")),
        ("failed", "engine-error", "no", (500, "server_error", None, "engine_error")),
        ("quarantined", "killed", "no", (500, "server_error", None, "killed")),
    ],
)
def test_a_request_without_a_result_has_openais_error_object(
    status: str, code: str, reason: str, expected: tuple[Any, ...]
) -> None:
    line = written(RequestKind.CHAT, status=status, error_code=code, error=reason)

    error = line["response"]["body"]["error"]
    assert (line["response"]["status_code"], error["type"], error["param"], error["code"]) == expected
    assert line["error"] == {"code": error["code"], "message": reason}


@pytest.mark.parametrize(("status", "code"), [("cancelled", "batch_cancelled"), ("waiting", "waiting")])
def test_a_request_that_nobody_came_to_has_no_response(status: str, code: str) -> None:
    line = written(RequestKind.CHAT, status=status)

    assert (line["response"], line["error"]["code"]) == (None, code)


@pytest.mark.parametrize(("own_id", "shown"), [("r'1\"\\n", "r'1\"\\n"), ("x" * 200, None)])
def test_a_second_request_with_an_id_has_this_id_where_the_error_holds_it(own_id: str, shown: str | None) -> None:
    taken = duplicate(Document(1, own_id, False, 2, "x", None, 1), 1)
    assert isinstance(taken, Rejected)

    line = written(
        RequestKind.CHAT,
        external_id=None,
        status="rejected",
        error_code=str(taken.code),
        error=taken.reason,
    )

    assert line["custom_id"] == shown
