"""What of a line is worked on: a text, or a source and its target, or a query and its candidates.

Knows: which fields that takes, and what the engines read. Does not know: formats, files, ids.
"""

import enum
from collections.abc import Callable
from typing import Any

import orjson

from jobs.corpus.documents import Payload, Problem, check_text, estimate_tokens
from jobs.spec import JobSpec, ScoreOptions, Task

# Takes the payload's fields out of a line's values, and gives the payload: a text as it stands there, whatever it is
# (`check_record` looks at it), a `Payload`, or the `Problem` that there is.
Take = Callable[[dict[str, Any]], object]


class Holds(enum.StrEnum):
    """What a document is."""

    TEXT = "text"
    PAIRS = "pairs"  # a source and a target
    CANDIDATES = "candidates"  # a query and what was found for it

    @classmethod
    def of(cls, spec: JobSpec) -> "Holds":
        """What the documents of a job are."""
        if spec.task is Task.RERANK:
            return cls.CANDIDATES
        return cls.PAIRS if isinstance(spec.options, ScoreOptions) and spec.options.pairs else cls.TEXT


def take_text(field: str) -> Take:
    """The text as it is."""
    return lambda values: values.pop(field, None)


def take_pair(source_field: str, target_field: str) -> Take:
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
    raise NotImplementedError
