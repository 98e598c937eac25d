"""
The kinds of models, and which kind a network of which architecture is.

Knows: names, as config.json has them. Does not know: files. Standard library alone: the registry imports this.
"""

import enum
from collections.abc import Mapping
from typing import Any, Self

MARIAN = "marian"
UNNAMED = "causal"  # an export whose configuration does not say
# The class in transformers, which config.json names -> what config.json calls model_type. Of these `models add` builds
# graphs; an export may be of any other.
ARCHITECTURES = {
    "MarianMTModel": MARIAN,
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}


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


def architecture_of(config: Mapping[str, Any]) -> str | None:
    """Which of the `ARCHITECTURES` a config.json names, as a model_type; None for another, or for none."""
    named = config.get("architectures") or []
    if isinstance(named, list) and len(named) == 1:
        return ARCHITECTURES.get(str(named[0])) or ARCHITECTURES.get(_with_head(str(named[0])))
    model_type = str(config.get("model_type"))
    return model_type if not named and model_type in ARCHITECTURES.values() else None


def lacks_head(config: Mapping[str, Any]) -> bool:
    """Whether a config.json names a causal network without its head (LlamaModel), as AutoModel saves it."""
    named = config.get("architectures") or []
    return isinstance(named, list) and len(named) == 1 and _with_head(str(named[0])) in ARCHITECTURES


def _with_head(name: str) -> str:
    """LlamaForCausalLM of LlamaModel; nothing of a name of another form."""
    stem = name.removesuffix("Model")
    return f"{stem}ForCausalLM" if stem != name else ""


def names_causal(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of some causal language model, of an architecture that we build or another."""
    named = config.get("architectures") or []
    if isinstance(named, list) and any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in named):
        return True
    return architecture_of(config) not in (None, MARIAN)
