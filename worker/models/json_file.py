"""Read the JSON files of a model: config.json, generation_config.json and the like."""

import json
from pathlib import Path
from typing import Any

from jobs.errors import ModelError


def read_json(file: Path) -> dict[str, Any]:
    """The object in `file`; raise ModelError where it is not one."""
    value = _read(file)
    if not isinstance(value, dict):
        raise ModelError(f"{file} holds {type(value).__name__}, not an object")
    return value


def read_json_list(file: Path) -> list[Any]:
    """The list in `file`; raise ModelError where it is not one."""
    value = _read(file)
    if not isinstance(value, list):
        raise ModelError(f"{file} holds {type(value).__name__}, not a list")
    return value


def read_json_or_empty(file: Path) -> dict[str, Any]:
    """The object in `file`; empty where it cannot be read, for callers that leave the error to another reader."""
    try:
        return read_json(file)
    except ModelError:
        return {}


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{file} does not exist; it belongs to the model") from None
    except (OSError, ValueError, RecursionError) as error:  # RecursionError: nested deeper than any configuration
        raise ModelError(f"{file} cannot be read: {error}") from error
