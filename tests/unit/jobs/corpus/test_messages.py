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
        ([{"role": "tool", "content": "x"}], "message 1 of 1: its role is 'tool'; known are system, user, assistant"),
        ([{"content": "x"}], "message 1 of 1: its role is null; known are"),
        ([{"role": "user", "content": [1]}], "message 1 of 1: the field 'content' is a list, not a string"),
        ([{"role": "user", "content": " "}], "message 1 of 1: the field 'content' holds no text"),
        ([{"role": "user", "content": "a\0"}], "NUL character"),
        ([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}], "message 2 of 2: the system speaks"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "end with a message of the user"),
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
