"""The setting `counterparts`: the name that a model has at each provider.

A JSON object, `{"demo-lm": {"openai": "demo-lm-f32"}}`; in kvjobs.toml a table for each model.
"""

import json
from collections.abc import Mapping
from typing import Any

from jobs.errors import SpecError
from jobs.providers import ONNX, ProviderOrder

_EXAMPLE = '{"demo-lm": {"openai": "its name there"}}'


def parse_counterparts(text: str) -> Mapping[str, Mapping[str, str]]:
    """The name at each provider, by the model's name. Raises SpecError for a text that is not as above."""
    if not text.strip():
        return {}
    try:
        return _checked(json.loads(text))
    except (ValueError, RecursionError):
        raise SpecError(f"counterparts is not JSON; write an object: {_EXAMPLE}") from None


def read_counterparts(value: Any) -> str:
    """The text, of a table as TOML gives it too. Raises SpecError for anything else."""
    names = parse_counterparts(value) if isinstance(value, str) else _checked(value)
    return json.dumps(names, ensure_ascii=False, separators=(", ", ": ")) if names else ""


def _checked(value: Any) -> Mapping[str, Mapping[str, str]]:
    if not isinstance(value, Mapping):
        raise SpecError(f"counterparts is not a table of models; write: {_EXAMPLE}")
    for model, names in value.items():
        if not isinstance(names, Mapping):
            raise SpecError(f"counterparts of {model!r} is not a table of providers; write: {_EXAMPLE}")
        for provider, name in names.items():
            if not isinstance(name, str) or not name.strip():
                raise SpecError(f"counterparts of {model!r}: the name at {provider!r} is {name!r}; write a name")
            if provider == ONNX:
                raise SpecError(f"counterparts of {model!r} names {ONNX}, which runs the model itself; leave it out")
            ProviderOrder.parse(provider)  # raises SpecError for what cannot be the name of a provider
    return value
