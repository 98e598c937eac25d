"""
The description of a causal network from what the config.json files of most families have in common.

Knows: sizes, their defaults where a family gives some, and that a rotation is read for each layer. Does not know:
families.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jobs.errors import ModelError
from worker.graphs.causal.block import CausalBlock
from worker.graphs.causal.config_reader import ConfigReader
from worker.graphs.causal.rope import Rope
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.tensor_names import CausalTensorNames

SLIDING, FULL = "sliding_attention", "full_attention"  # in `layer_types`
WINDOW = 4096  # default of transformers for the families with a window


def describe(
    config: ConfigReader,
    family: str,
    block: CausalBlock,
    tensors: CausalTensorNames,
    *,
    defaults: Mapping[str, int | None] | None = None,
    kv_heads: int | None = None,
    head_size: int | None = None,
    ropes: Callable[[int, int, int], Sequence[Rope | None]] | None = None,
    windows: Sequence[int | None] | None = None,
    max_positions: int | None = None,
    is_tied: bool = False,
) -> CausalSizes:
    """Describe the network by the settings that most families have in common; arguments replace them.

    `kv_heads`: None for as many as heads. `head_size`: None for the width divided by the heads. `ropes`: called with
    head size, positions and layers, gives the rotation of each layer; None for config.json's rotation in all layers.
    `max_positions`: None for config.json's. `is_tied`: the default if config.json does not say it.
    """
    sizes = config.sizes(defaults or {})
    width, heads, layers = sizes["hidden_size"], sizes["num_attention_heads"], sizes["num_hidden_layers"]
    max_positions = max_positions or sizes["max_position_embeddings"]
    kv_heads = kv_heads or heads
    if min(*sizes.values(), kv_heads) < 1 or heads % kv_heads:
        raise ModelError(
            f"config.json says {heads} attention heads, which is not a multiple of its {kv_heads} key/value heads"
        )
    own_size = head_size or width // heads
    by_layer = tuple((ropes or one_rope(config))(own_size, sizes["max_position_embeddings"], layers))
    rotated = next((2 * len(rope.frequencies) for rope in by_layer if rope is not None), 0)
    return CausalSizes(
        family=family,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        own_head_size=own_size,
        layers=layers,
        inner_width=sizes["intermediate_size"],
        vocab_size=sizes["vocab_size"],
        max_positions=max_positions,
        rotated=rotated,
        ropes=by_layer,
        windows=tuple(
            None if window is None or window >= max_positions else window for window in windows or (None,) * layers
        ),
        tied_head=config.flag("tie_word_embeddings", is_tied),
        block=block,
        tensors=tensors,
    )


def one_rope(config: ConfigReader, **how: Any) -> Callable[[int, int, int], Sequence[Rope]]:
    """The rotation of config.json, in every layer."""

    def of_layers(head_size: int, max_positions: int, layers: int) -> Sequence[Rope]:
        if head_size % 2 or head_size < 2:
            raise ModelError(f"config.json gives heads of size {head_size}; rotary positions need an even size")
        return (Rope.read(config.content, head_size, max_positions, **how),) * layers

    return of_layers


def size_of(config: ConfigReader, name: str, default: int | None = None) -> int | None:
    """A size that may be missing or null."""
    value = config.content.get(name) or default
    if value is None:
        return None
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise ModelError(f"config.json says {name} = {value!r:.40}, which is not a size") from error


def kv_heads_of(config: ConfigReader, default: int) -> int | None:
    """`num_key_value_heads`: `default` if it is missing, None (as many as heads) if it is null."""
    name = "num_key_value_heads"
    return size_of(config, name) if name in config.content else default


def windows_of(kinds: Sequence[str], window: int | None) -> list[int | None]:
    """The window of each layer, by its kind. Raises ModelError for a layer that should have one where none is given."""
    if window is None and SLIDING in kinds:
        raise ModelError(
            "config.json gives some layers sliding_attention and no window: set sliding_window (and use_sliding_window "
            "= true where the family has it), or give these layers full_attention in layer_types"
        )
    return [window if kind == SLIDING else None for kind in kinds]


def no_rope(head_size: int, max_positions: int, layers: int) -> Sequence[None]:
    """No layer rotates."""
    return (None,) * layers
