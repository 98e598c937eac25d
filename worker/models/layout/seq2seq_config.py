"""
The sizes in a translation model's config.json, which T5 names otherwise than Marian and BART.

Knows: their names in transformers. Does not know: graphs. Standard library alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

# By the name in Marian, BART and their kin, and by that in T5. The cache is the decoder's.
_NAMES = {
    "num_layers": ("decoder_layers", "num_decoder_layers", "num_layers"),
    "num_heads": ("decoder_attention_heads", "num_heads"),
    "head_size": ("head_dim", "d_kv"),
    "width": ("d_model",),
    "vocab_size": ("vocab_size",),
    "max_positions": ("max_position_embeddings", "n_positions"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2SeqConfig:
    """The sizes of a decoder. None: not given, or no size."""

    num_layers: int | None
    num_heads: int | None
    head_size: int | None
    width: int | None
    vocab_size: int | None
    max_positions: int | None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """The sizes in the content of a config.json."""
        found = {key: _first_size(content, key) for key in _NAMES}
        width, heads = found["width"], found["num_heads"]
        if found["head_size"] is None and width and heads:
            found["head_size"] = width // heads
        return cls(**found)


def named_size(content: Mapping[str, Any], key: str) -> tuple[str, Any]:
    """The name under which the content of a config.json gives a size of `Seq2SeqConfig`, and its value; None: none."""
    name = next((name for name in _NAMES[key] if content.get(name) is not None), _NAMES[key][0])
    return name, content.get(name)


def _first_size(content: Mapping[str, Any], key: str) -> int | None:
    value = named_size(content, key)[1]
    return value if type(value) is int and value > 0 else None
