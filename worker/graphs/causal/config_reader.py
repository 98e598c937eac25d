"""
What the families' readers take from a config.json: sizes, numbers and flags, each checked.

Knows: keys and defaults as they are given. Does not know: families, graphs.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

from jobs.errors import ModelError
from worker.graphs.causal.block import ACTIVATIONS
from worker.graphs.checkpoint_weights import MAX_LAYERS

# The names of sizes in most families of transformers, and others that GPT-2, BLOOM and OPT have for them.
_ALIASES = {
    "hidden_size": ("hidden_size", "n_embd", "n_embed"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions"),
    "num_attention_heads": ("num_attention_heads", "n_head"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer"),
    "vocab_size": ("vocab_size",),
}


class ConfigReader:
    """A config.json. Methods raise ModelError that names the setting that is missing or not supported."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.content = config

    def filled(self, **defaults: Any) -> Self:
        """A reader of the same config.json in which missing and null settings have these defaults."""
        missing = {name: value for name, value in defaults.items() if self.content.get(name) is None}
        return type(self)({**self.content, **missing})

    def sizes(self, defaults: Mapping[str, int | None] | None = None) -> dict[str, int]:
        """The sizes that every network has, by the names that most families use. `defaults`: the value of each size
        that may be missing or null."""
        defaults = defaults or {}
        sizes: dict[str, int] = {}
        for name, aliases in _ALIASES.items():
            given = next((self.content[alias] for alias in aliases if self.content.get(alias) is not None), None)
            value = defaults.get(name) if given is None else given
            try:
                sizes[name] = int(value)  # type: ignore[arg-type]
            except (TypeError, ValueError) as error:
                raise ModelError(f"config.json lacks '{name}', or gives it a value that is not a size") from error
        if (layers := sizes["num_hidden_layers"]) > MAX_LAYERS:
            raise ModelError(f"config.json asks for {layers:,} layers; at most {MAX_LAYERS:,} are supported")
        return sizes

    def flag(self, name: str, default: bool = False) -> bool:
        """A setting that is on or off; null is off, as in transformers, and only a missing one has the default."""
        return bool(self.content.get(name, default))

    def number(self, name: str, default: float) -> float:
        """A finite number; null counts as missing."""
        value = self.optional_number(name)
        return default if value is None else value

    def positive(self, name: str, default: float) -> float:
        """A number above 0."""
        value = self.number(name, default)
        if value <= 0:
            raise ModelError(f"config.json says {name} = {value:g}, which has to be above 0")
        return value

    def cap(self, name: str, default: float | None) -> float | None:
        """A soft cap; null stands for none, and a missing setting for the default."""
        if self.content.get(name, default) is None:
            return None
        return self.positive(name, default or 1.0)

    def window(self, default: int | None) -> int | None:
        """`sliding_window`; null stands for none, and a missing one for the default."""
        size = self.cap("sliding_window", default)
        return None if size is None else int(size)

    def optional_number(self, name: str) -> float | None:
        """A finite number, None where it is missing or null."""
        value = self.content.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ModelError(f"config.json says {name} = {value!r:.40}, which is not a number")
        return float(value)

    def activation(self, name: str, default: str) -> str:
        """The name of an activation."""
        value = self.content.get(name) or default
        if value not in ACTIVATIONS:
            raise ModelError(f"config.json says {name} = {value}; supported are {', '.join(ACTIVATIONS)}")
        return str(value)

    def refuse(self, name: str, value: Any, remedy: str = "take an ONNX export of it") -> None:
        """Raise ModelError where a setting has a value that no graph is built for."""
        if self.content.get(name) == value:
            shown = str(value).lower() if isinstance(value, bool) else value
            raise ModelError(f"config.json says {name} = {shown}, for which no graphs are built: {remedy}")

    def layer_types(self, layers: int, default: Sequence[str]) -> list[str]:
        """`layer_types`: sliding_attention or full_attention for each layer."""
        kinds = self.content.get("layer_types")
        kinds = list(default) if kinds is None else kinds
        if not isinstance(kinds, list) or len(kinds) != layers or {*kinds} - {"sliding_attention", "full_attention"}:
            raise ModelError(
                f"config.json gives layer_types other than {layers} of sliding_attention and full_attention"
            )
        return kinds
