"""A comparison as one JSON object, for programs."""

import dataclasses
from typing import Any

from jobs.comparison.compare import Comparison

PARTS = ("contrasts", "coverage", "speed", "agreement", "reference_scores", "judged", "largest", "notes")
DERIVED = ("difference", "is_significant", "differs", "sentence", "perplexity", "bits_per_byte")


def as_record(found: Comparison) -> dict[str, Any]:
    """Everything: jobs as `kvjobs ls --json` has them, values with what follows from them."""
    parts = {name: _plain(getattr(found, name)) for name in PARTS}
    return {"a": found.a.as_row(), "b": found.b.as_row(), **parts}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        row = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return row | {name: getattr(value, name) for name in DERIVED if name not in row and hasattr(value, name)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
