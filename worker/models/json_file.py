"""The JSON files beside a model's graphs: config.json, generation_config.json and the like."""

import json
from pathlib import Path
from typing import Any

from jobs.errors import ModelError


def read_json(file: Path) -> dict[str, Any]:
    """The object in `file`; raise ModelError where it is not one."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{file} does not exist; it belongs to the model") from None
    except (OSError, ValueError, RecursionError) as error:  # the last: nested deeper than any configuration
        raise ModelError(f"{file} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{file} holds {type(value).__name__}, not an object")
    return value


def read_json_or_empty(file: Path) -> dict[str, Any]:
    """The object in `file`; empty where there is none that can be read, which another caller reports."""
    try:
        return read_json(file)
    except ModelError:
        return {}
