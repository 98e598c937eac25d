"""The messages of a chat, as lines of a corpus write them."""

import json
from typing import Any

import pytest

from jobs.corpus.messages import Message, check_messages, read_messages
from jobs.corpus.payload import take_messages
from jobs.documents import Payload, Problem, Reject


def test_messages_are_stored_as_they_are_without_other_fields() -> None:
    found = check_messages([{"role": "system", "content": "s", "name": "x"}, {"role": "user", "content": "q?"}])

    assert isinstance(found, Payload)
    assert read_messages(found.text) == [Message("system", "s"), Message("user", "q?")]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            [("user", [{"type": "text", "text": "Will "}, {"type": "text", "text": "it rain?"}])],
            [("user", "Will it rain?")],
        ),
        ([("developer", "Be brief."), ("user", "q")], [("system", "Be brief."), ("user", "q")]),
        ([("system", ""), ("user", "q")], [("system", ""), ("user", "q")]),
        ([("user", "q"), ("assistant", "The answer is")], [("user", "q"), ("assistant", "The answer is")]),
    ],
    ids=["parts", "developer", "empty system", "an answer's beginning"],
)
def test_messages_as_others_write_them_are_read(messages: Any, expected: list[tuple[str, str]]) -> None:
    found = check_messages([{"role": role, "content": content} for role, content in messages])

    assert isinstance(found, Payload)
    assert read_messages(found.text) == [Message(role, content) for role, content in expected]


def test_a_text_is_a_message_of_the_user() -> None:
    values: dict[str, Any] = {"body": "hello", "other": 1}

    found = take_messages("body")(values)

    assert isinstance(found, Payload)
    assert read_messages(found.text) == [Message("user", "hello")]
    assert values == {"other": 1}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "the list is empty; write"),
        ("hm", "`messages` is a string, not a list; write"),
        ([3], "message 1 of 1: it is a number, not an object"),
        (
            [{"role": "bot", "content": "x"}],
            "message 1 of 1: its role is 'bot'; known are system, user, assistant, dev",
        ),
        ([{"content": "x"}], "message 1 of 1: its role is null; known are"),
        (
            [{"role": "tool", "content": "x"}],
            "message 1 of 1: it is part of a call of a tool, and prompts here have no",
        ),
        (
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": []}],
            "message 2 of 2: it",
        ),
        ([{"role": "assistant", "content": "x", "function_call": {"name": "f"}}], "it is part of a call of a tool"),
        ([{"role": "user"}], "message 1 of 1: it has no content; write {"),
        ([{"role": "user", "content": 3}], "its content is a number; write a string in quotes, or parts: [{"),
        ([{"role": "user", "content": [1]}], "part 1 of its content is a number, not {"),
        (
            [{"role": "user", "content": [{"type": "image_url"}]}],
            "part 1 of its content is of type 'image_url'; the models",
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": 1}]}],
            "part 1 of its content is a text whose `text` is a",
        ),
        ([{"role": "user", "content": []}], "holds no text"),
        ([{"role": "user", "content": " "}], "message 1 of 1: the field 'content' holds no text"),
        ([{"role": "user", "content": "a\0"}], "NUL character"),
        ([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}], "message 2 of 2: the system (or"),
        (
            [{"role": "user", "content": "a"}, {"role": "developer", "content": "b"}],
            "message 2 of 2: the system (or dev",
        ),
        ([{"role": "system", "content": "a"}], "end with a message of the user"),
        (
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}],
            "message 2 of 2: the field 'content'",
        ),
    ],
)
def test_bad_messages_are_refused_with_what_to_do(messages: Any, reason: str) -> None:
    found = take_messages("text")({"messages": messages})

    assert isinstance(found, Problem)
    assert reason in found.reason


def test_a_line_with_neither_is_refused_like_one_without_a_text() -> None:
    found = take_messages("text")({"messages": None})

    assert isinstance(found, Problem)
    assert found.code is Reject.NO_TEXT
    assert json.dumps(found.reason)
