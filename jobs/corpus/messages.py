"""
The messages of a chat: the document of a job that generates with a chat template.

    {"messages": [{"role": "system", "content": "..."}, {"role": "user", "content": "..."}]}
    {"text": "..."}                   the same as a single message of the user

The last message is the user's: the model answers it. Other fields of a message are dropped.

Knows: what a line has to contain. Does not know: chat templates, files, tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from jobs.documents import Payload, Problem, Reject, check_text, estimate_tokens, kind_of, quoted

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Message:
    """What one side says."""

    role: str  # one of ROLES
    content: str


def check_messages(messages: object) -> Payload | Problem:
    """The payload that this value of a line makes, or why it makes none."""
    if type(messages) is not list or not messages:
        found = "the list is empty" if messages == [] else f"`messages` is {kind_of(messages)}, not a list"
        return Problem(Reject.BAD_MESSAGES, f'{found}; write [{{"role": "user", "content": "..."}}, ...]')
    for place, message in enumerate(messages, 1):
        if why := _why_not(message, place):
            return Problem(Reject.BAD_MESSAGES, f"message {place} of {len(messages)}: {why}")
    if messages[-1]["role"] != "user":
        last = messages[-1]["role"]
        reason = f"the last message is the {last}'s, and the model answers the user; end with a message of the user"
        return Problem(Reject.BAD_MESSAGES, reason)
    kept = [{"role": message["role"], "content": message["content"]} for message in messages]
    tokens = sum(estimate_tokens(message["content"]) for message in kept)
    return Payload(orjson.dumps({"messages": kept}).decode(), tokens)


def read_messages(payload: str) -> list[Message]:
    """The messages of a payload."""
    values = orjson.loads(payload)
    if "text" in values:
        return [Message("user", values["text"])]
    return [Message(message["role"], message["content"]) for message in values["messages"]]


def with_system(messages: Sequence[Message], system: str | None) -> list[Message]:
    """The messages after the job's message of the system, if it has one; a document's own comes instead."""
    if system is None or messages[0].role == "system":
        return list(messages)
    return [Message("system", system), *messages]


def _why_not(message: object, place: int) -> str | None:
    if type(message) is not dict:
        return f'it is {kind_of(message)}, not an object; write {{"role": "user", "content": "..."}}'
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        known = ", ".join(ROLES)
        return f"its role is {quoted(role) if type(role) is str else kind_of(role)}; known are {known}"
    if role == "system" and place > 1:
        return "the system speaks first, or not at all; move the message to the front"
    problem = check_text(content, "content", "content", message)
    return problem.reason if problem else None
