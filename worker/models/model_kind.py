"""
The kinds of models, and which kind an architecture is.

Knows: names, as config.json has them. Does not know: files. Standard library alone: the registry imports this.
"""

import enum
from collections.abc import Mapping
from typing import Any, Self

from worker.graphs.architectures import MARIAN, architecture_of

UNNAMED = "causal"  # the architecture of an export whose configuration does not name one


class ModelKind(enum.StrEnum):
    """What a model is for."""

    TRANSLATION = "translation"  # from a source to a target: Marian
    CAUSAL = "causal"  # how likely is a text, token after token

    @classmethod
    def of_architecture(cls, name: str) -> Self:
        """`name` is the model_type of config.json, as a manifest has it."""
        return cls(cls.TRANSLATION if name == MARIAN else cls.CAUSAL)

    @property
    def noun(self) -> str:
        """In a sentence."""
        return "a translation model" if self is ModelKind.TRANSLATION else "a causal language model"


def names_causal(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of some causal language model, of an architecture that we build or another."""
    named = config.get("architectures") or []
    if isinstance(named, list) and any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in named):
        return True
    return architecture_of(config) not in (None, MARIAN)
