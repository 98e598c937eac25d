"""What of a line is worked on: a text, or a source and its target, or a query and its candidates.

Knows: which fields that takes, and what the engines read. Does not know: formats, files, ids.
"""

import enum
from collections.abc import Callable
from typing import Any

import orjson

from jobs.corpus.candidates import check_candidates, read_payload
from jobs.documents import Payload, Problem, check_text, estimate_tokens
from jobs.spec import JobSpec, ScoreOptions, Task

# Takes the payload's fields out of a line's values, and gives the payload: a text as it stands there, whatever it is
# (`check_record` looks at it), a `Payload`, or the `Problem` that there is.
TakePayload = Callable[[dict[str, Any]], object]


class PayloadKind(enum.StrEnum):
    """What a document is."""

    TEXT = "text"
    PAIRS = "pairs"  # a source and a target
    CANDIDATES = "candidates"  # a query and what was found for it

    @classmethod
    def of(cls, spec: JobSpec) -> "PayloadKind":
        """What the documents of a job are."""
        if spec.task is Task.RERANK:
            return cls.CANDIDATES
        return cls.PAIRS if isinstance(spec.options, ScoreOptions) and spec.options.pairs else cls.TEXT


def take_text(field: str) -> TakePayload:
    """The text as it is."""
    return lambda values: values.pop(field, None)


def take_pair(source_field: str, target_field: str) -> TakePayload:
    """JSON: {"source", "target"}."""

    def take(values: dict[str, Any]) -> Payload | Problem:
        source, target = values.pop(source_field, None), values.pop(target_field, None)
        problem = check_text(source, source_field, "source", values) or check_text(
            target, target_field, "target", values
        )
        if problem:
            return problem
        tokens = estimate_tokens(source) + estimate_tokens(target)
        return Payload(orjson.dumps({"source": source, "target": target}).decode(), tokens)

    return take


def take_candidates(values: dict[str, Any]) -> Payload | Problem:
    """JSON: {"query", "candidates": [{"id", "text", "score"?}, ...]}."""
    checked = check_candidates(values.pop("query", None), values.pop("candidates", None))
    return payload_of_candidates(checked) if isinstance(checked, str) else Problem(*checked)


def payload_of_candidates(payload: str) -> Payload:
    """The model reads the query once with each candidate."""
    query, candidates = read_payload(payload)
    per_query = estimate_tokens(query)
    return Payload(payload, sum(estimate_tokens(one.text or "") + per_query for one in candidates))
