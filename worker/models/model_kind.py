"""
The kinds of models, and which kind an architecture is.

Knows: the names in config.json. Does not know: files. Needs only the standard library.
"""

import enum
from collections.abc import Mapping
from typing import Any, Self

from worker.graphs.architectures import CROSS_ENCODERS, SEQ2SEQ_ARCHITECTURES, architecture_of

UNNAMED = "causal"  # the architecture of an export whose configuration names none


class ModelKind(enum.StrEnum):
    """What a model computes."""

    TRANSLATION = "translation"  # a target text from a source text: seq2seq
    CAUSAL = "causal"  # the probability of a text, token by token
    CROSS_ENCODER = "cross-encoder"  # the relevance of two texts to each other

    @classmethod
    def of_architecture(cls, name: str) -> Self:
        """`name`: model_type in config.json, `architecture` in the manifest."""
        if name in CROSS_ENCODERS:
            return cls(cls.CROSS_ENCODER)
        return cls(cls.TRANSLATION if name in SEQ2SEQ_ARCHITECTURES.values() else cls.CAUSAL)

    @property
    def noun(self) -> str:
        """The kind in a sentence."""
        return _NOUNS[self]


_NOUNS = {
    ModelKind.TRANSLATION: "a translation model",
    ModelKind.CAUSAL: "a causal language model",
    ModelKind.CROSS_ENCODER: "a cross-encoder",
}


def names_causal(config: Mapping[str, Any]) -> bool:
    """Whether a config.json describes a causal language model, whether native graphs exist for it or not."""
    named = config.get("architectures") or []
    if isinstance(named, list) and any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in named):
        return True
    return architecture_of(config) not in (None, *SEQ2SEQ_ARCHITECTURES.values(), *CROSS_ENCODERS)


def names_cross_encoder(config: Mapping[str, Any]) -> bool:
    """Whether a config.json describes a cross-encoder that native graphs exist for."""
    return architecture_of(config) in CROSS_ENCODERS
