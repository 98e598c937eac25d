"""
The kinds of models, and which kind an architecture is.

Knows: the names in config.json. Does not know: files. Needs only the standard library.
"""

import enum
from collections.abc import Mapping
from typing import Any, Self

from worker.graphs.architectures import SEQ2SEQ_ARCHITECTURES, architecture_of

UNNAMED = "causal"  # the architecture of an export whose configuration names none


class ModelKind(enum.StrEnum):
    """What a model computes."""

    TRANSLATION = "translation"  # a target text from a source text: seq2seq
    CAUSAL = "causal"  # the probability of a text, token by token

    @classmethod
    def of_architecture(cls, name: str) -> Self:
        """`name`: model_type in config.json, `architecture` in the manifest."""
        return cls(cls.TRANSLATION if name in SEQ2SEQ_ARCHITECTURES.values() else cls.CAUSAL)

    @property
    def noun(self) -> str:
        """The kind in a sentence."""
        return "a translation model" if self is ModelKind.TRANSLATION else "a causal language model"


def names_causal(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a causal language model, whether native graphs exist for it or not."""
    named = config.get("architectures") or []
    if isinstance(named, list) and any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in named):
        return True
    return architecture_of(config) not in (None, *SEQ2SEQ_ARCHITECTURES.values())
