"""The JSON files of a causal model's tokenizer, and the error for a vocabulary that cannot be read for certain."""

from pathlib import Path
from typing import Any

import orjson

from jobs.errors import ModelError


def read_object(file: Path, *, is_optional: bool = False) -> dict[str, Any]:
    """The object in `file`; empty for an optional file that is missing. Raises ModelError for any other fault."""
    try:
        content = orjson.loads(file.read_bytes())
    except FileNotFoundError as error:
        if is_optional:
            return {}
        raise ModelError(
            f"{file} is missing: it is the tokenizer of a causal model; export the model again, with its tokenizer"
        ) from error
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelError(f"{file} is not JSON ({error}): download or export it again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file} holds a JSON {type(content).__name__}, not an object")
    return content


class UnknownVocabularyError(ModelError):
    """It is not known for certain how the vocabulary cuts texts."""
