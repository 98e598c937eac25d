"""
The messages of a chat: the document of a job that generates with a chat template.

    {"messages": [{"role": "system", "content": "..."}, {"role": "user", "content": "..."}]}
    {"text": "..."}                   the same as a single message of the user

The last message is the user's, which the model answers, or the beginning of an answer, which the model continues. A
content may be a list of parts of type text, which are joined. `developer` is OpenAI's newer word for `system`, which
templates and other servers know. Other fields of a message are dropped.

Knows: what a line has to contain. Does not know: chat templates, files, tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from jobs.documents import Payload, Problem, Reject, check_text, estimate_tokens, kind_of, quoted

ROLES = ("system", "user", "assistant")
_DEVELOPER = "developer"
_OF_TOOLS = ("tool", "function")  # roles
_CALLS = ("tool_calls", "function_call")  # fields of a message
_EXAMPLE = '{"role": "user", "content": "..."}'


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the chat: who speaks, and the text."""

    role: str  # one of ROLES
    content: (
        str  # of the system it may be empty: a template may write another message of the system where there is none
    )


def check_messages(messages: object, **more: object) -> Payload | Problem:
    """The payload that this value of a line makes, with `more` keys, or why it makes none."""
    if type(messages) is not list or not messages:
        found = "the list is empty" if messages == [] else f"`messages` is {kind_of(messages)}, not a list"
        return Problem(Reject.BAD_MESSAGES, f"{found}; write [{_EXAMPLE}, ...]")
    kept: list[Message] = []
    for number, message in enumerate(messages, 1):
        checked = _check(message, number)
        if isinstance(checked, str):
            return Problem(Reject.BAD_MESSAGES, f"message {number} of {len(messages)}: {checked}")
        kept.append(checked)
    if kept[-1].role == "system":
        reason = "the last message is the system's, and the model answers the user; end with a message of the user"
        return Problem(Reject.BAD_MESSAGES, reason)
    # With the roles of the line, which an export may write again.
    written = [
        {"role": given["role"], "content": message.content} for given, message in zip(messages, kept, strict=True)
    ]
    return Payload(
        orjson.dumps({"messages": written, **more}).decode(), sum(estimate_tokens(message.content) for message in kept)
    )


def read_messages(payload: str) -> list[Message]:
    values = orjson.loads(payload)
    if "text" in values:
        return [Message("user", values["text"])]
    return [Message(_known_role(message["role"]), message["content"]) for message in values["messages"]]


def with_system(messages: Sequence[Message], system: str | None) -> list[Message]:
    """The messages after the job's message of the system, if it has one; a document's own comes instead."""
    if system is None or messages[0].role == "system":
        return list(messages)
    return [Message("system", system), *messages]


def begins_answer(messages: Sequence[Message]) -> bool:
    """Whether the last message is the beginning of the answer, which the model continues."""
    return messages[-1].role == "assistant"


def _check(message: object, number: int) -> Message | str:
    """The message, or what is wrong with it and what to do."""
    if type(message) is not dict:
        return f"it is {kind_of(message)}, not an object; write {_EXAMPLE}"
    role = message.get("role")
    has_no_content = message.get("content") is None
    if role in _OF_TOOLS or any(message.get(name) or (has_no_content and name in message) for name in _CALLS):
        return (
            "it is part of a call of a tool, and prompts here have no tools; take the call and its result out, or "
            "write them into messages of the assistant and the user"
        )
    role = _known_role(role)
    if role not in ROLES:
        known = ", ".join((*ROLES, _DEVELOPER))
        return f"its role is {quoted(role) if type(role) is str else kind_of(role)}; known are {known}"
    if role == "system" and number > 1:
        return "the system (or developer) speaks first, or not at all; move the message to the front"
    return _check_content(role, message)


def _known_role(role: Any) -> Any:
    return "system" if role == _DEVELOPER else role


def _check_content(role: str, message: Mapping[str, object]) -> Message | str:
    content = message.get("content")
    if type(content) is list:
        joined: list[str] = []
        for number, part in enumerate(content, 1):
            text = part.get("text") if type(part) is dict and part.get("type") == "text" else None
            if type(text) is not str:
                return f"part {number} of its content is {_kind_of_part(part)}; the models here read text alone"
            joined.append(text)
        content = "".join(joined)
    if content is None:
        return f"it has no content; write {_EXAMPLE}, or take the message out"
    if type(content) is not str:
        example = '[{"type": "text", "text": "..."}]'
        return f"its content is {kind_of(content)}; write a string in quotes, or parts: {example}"
    if role == "system" and not content.strip():
        return Message(role, content)
    problem = check_text(content, "content", "content", message)
    return problem.reason if problem else Message(role, content)


def _kind_of_part(part: object) -> str:
    if type(part) is not dict:
        return f'{kind_of(part)}, not {{"type": "text", "text": "..."}}'
    kind = part.get("type")
    if kind == "text":
        return f"a text whose `text` is {kind_of(part.get('text'))}, not a string"
    return f"of type {quoted(kind) if type(kind) is str else kind_of(kind)}"
