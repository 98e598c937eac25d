"""The payload of a document, which the engines process: a text, a source and its target, a query with candidates, or
the messages of a chat.

Knows: which fields make a payload. Does not know: formats, files, ids.
"""

from collections.abc import Callable
from typing import Any

import orjson

from jobs.corpus.candidates import check_candidates, read_payload
from jobs.corpus.field_path import take_field
from jobs.corpus.messages import check_messages
from jobs.documents import Payload, Problem, check_text, estimate_tokens

# Removes the payload's fields from a line's values and returns the payload: the value of a text field, unchecked
# (`check_record` checks it), a `Payload`, or a `Problem`.
TakePayload = Callable[[dict[str, Any]], object]


def take_text(field: str) -> TakePayload:
    """The value of one field, unchecked."""
    if "." in field:
        return lambda values: take_field(values, field)
    return lambda values: values.pop(field, None)


def take_pair(source_field: str, target_field: str) -> TakePayload:
    """Two fields as JSON: {"source", "target"}."""

    def take(values: dict[str, Any]) -> Payload | Problem:
        source, target = take_field(values, source_field), take_field(values, target_field)
        problem = check_text(source, source_field, "source", values) or check_text(
            target, target_field, "target", values
        )
        if problem:
            return problem
        tokens = estimate_tokens(source) + estimate_tokens(target)
        return Payload(orjson.dumps({"source": source, "target": target}).decode(), tokens)

    return take


def take_messages(text_field: str) -> TakePayload:
    """JSON: {"messages": [...]}, or {"text": "..."} of a line without messages."""

    def take(values: dict[str, Any]) -> Payload | Problem:
        messages = values.pop("messages", None)
        if messages is not None:
            return check_messages(messages)
        text = take_field(values, text_field)
        problem = check_text(text, text_field, "text", values)
        return problem or Payload(orjson.dumps({"text": text}).decode(), estimate_tokens(str(text)))

    return take


def take_candidates(values: dict[str, Any]) -> Payload | Problem:
    """JSON: {"query", "candidates": [{"id", "text", "score"?}, ...]}."""
    checked = check_candidates(values.pop("query", None), values.pop("candidates", None))
    return payload_of_candidates(checked) if isinstance(checked, str) else Problem(*checked)


def payload_of_candidates(payload: str) -> Payload:
    """A payload with its estimate: the model reads the query with each candidate."""
    query, candidates = read_payload(payload)
    per_query = estimate_tokens(query)
    return Payload(payload, sum(estimate_tokens(candidate.text or "") + per_query for candidate in candidates))
