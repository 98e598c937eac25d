"""
The families of causal networks: how each one's config.json describes the network.

Knows: settings and their defaults in transformers 4.57 (configuration_*.py and modeling_*.py of each family). Does not
know: graphs, weight files.

    llama     biases if config.json asks for them        (SmolLM and SmolLM2 are of this family)
    mistral   no biases, a sliding window
    qwen2     biases of queries, keys and values
    qwen3     queries and keys are normalized head by head

A setting that changes what the network computes is read or refused.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jobs.errors import ModelError
from worker.graphs.architectures import CAUSAL_ARCHITECTURES, MARIAN, architecture_of
from worker.graphs.causal import tensor_names
from worker.graphs.causal.block import Block, HeadNorm
from worker.graphs.causal.config_reader import ConfigReader
from worker.graphs.causal.rope import Rope
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.tensor_names import TensorNames

_SILU = ("silu", "swish")
_WINDOW = 4096  # default of transformers for the families with a window
_SLIDING, _FULL = "sliding_attention", "full_attention"


def read_sizes(config: Mapping[str, Any]) -> CausalSizes:
    """The description of the network, from config.json. Raises ModelError that names what is missing or not
    supported."""
    family = _family_of(config)
    return _READERS[family](ConfigReader(config), family)


def _family_of(config: Mapping[str, Any]) -> str:
    """Raise ModelError that names the known families where a config.json is of none of them."""
    family = architecture_of(config)
    if family is not None and family != MARIAN:
        return family
    named = config.get("architectures") or []
    what = ", ".join(map(str, named)) if isinstance(named, list) and named else config.get("model_type")
    raise ModelError(
        f"the architecture {what or '(config.json names none)'} is not supported; supported are "
        f"{', '.join(CAUSAL_ARCHITECTURES)}"
    )


def _describe(
    config: ConfigReader,
    family: str,
    block: Block,
    tensors: TensorNames,
    *,
    defaults: Mapping[str, int | None] | None = None,
    kv_heads: int | None = None,
    head_size: int | None = None,
    ropes: Callable[[int, int, int], Sequence[Rope | None]] | None = None,
    windows: Sequence[int | None] | None = None,
    is_tied: bool = False,
    **others: Any,
) -> CausalSizes:
    """The description, from what most families have in common.

    `kv_heads`, `head_size`: None: as many as heads, and the width divided by them. `ropes`: of each layer, from head
    size, positions and layers; None: the one of config.json, in all. `is_tied`: where config.json does not say it.
    """
    sizes = config.sizes(defaults or {})
    width, heads, layers = sizes["hidden_size"], sizes["num_attention_heads"], sizes["num_hidden_layers"]
    max_positions = others.pop("max_positions", None) or sizes["max_position_embeddings"]
    kv_heads = kv_heads or heads
    if min(*sizes.values(), kv_heads) < 1 or heads % kv_heads:
        raise ModelError(
            f"config.json says {heads} attention heads, which is not a multiple of its {kv_heads} key/value heads"
        )
    own_size = head_size or width // heads
    by_layer = tuple((ropes or _one_rope(config))(own_size, sizes["max_position_embeddings"], layers))
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
        **others,
    )


def _one_rope(config: ConfigReader, **how: Any) -> Callable[[int, int, int], Sequence[Rope]]:
    """The rotation of config.json, in every layer."""

    def of_layers(head_size: int, max_positions: int, layers: int) -> Sequence[Rope]:
        if head_size % 2 or head_size < 2:
            raise ModelError(f"config.json gives heads of size {head_size}; rotary positions need an even size")
        return (Rope.read(config.content, head_size, max_positions, **how),) * layers

    return of_layers


def _int(config: ConfigReader, name: str, default: int | None = None) -> int | None:
    return int(config.content.get(name) or 0) or default


# --- Llama and its kin


def _llama(config: ConfigReader, family: str) -> CausalSizes:
    has_bias = config.flag("attention_bias") and family != "mistral"
    block = Block(
        epsilon=config.number("rms_norm_eps", 1e-6),
        activation=config.activation("hidden_act", "silu", only=_SILU),
        qkv_bias=has_bias,
        out_bias=has_bias,
        inner_bias=config.flag("mlp_bias") and family == "llama",
    )
    return _describe(
        config,
        family,
        block,
        tensor_names.LLAMA,
        kv_heads=_int(config, "num_key_value_heads", 8 if family == "mistral" else None),
        head_size=_int(config, "head_dim"),
        windows=_mistral_windows(config) if family == "mistral" else None,
    )


def _mistral_windows(config: ConfigReader) -> list[int | None]:
    window = config.content.get("sliding_window", _WINDOW)
    return [None if window is None else int(window)] * config.sizes({})["num_hidden_layers"]


def _qwen(config: ConfigReader, family: str) -> CausalSizes:
    is_third = family == "qwen3"
    has_bias = config.flag("attention_bias") and is_third
    block = Block(
        epsilon=config.number("rms_norm_eps", 1e-6),
        activation=config.activation("hidden_act", "silu", only=_SILU),
        qkv_bias=has_bias or not is_third,
        out_bias=has_bias,
        head_norm=HeadNorm.HEAD if is_third else None,
    )
    return _describe(
        config,
        family,
        block,
        tensor_names.LLAMA,
        kv_heads=_int(config, "num_key_value_heads", 32),
        head_size=_int(config, "head_dim", 128 if is_third else None),
        windows=_qwen_windows(config),
    )


def _qwen_windows(config: ConfigReader) -> list[int | None]:
    layers = config.sizes({})["num_hidden_layers"]
    first = int(config.content.get("max_window_layers", 28))
    kinds = config.layer_types(layers, [_SLIDING if layer >= first else _FULL for layer in range(layers)])
    window = config.content.get("sliding_window", _WINDOW) if config.flag("use_sliding_window") else None
    return [int(window) if window is not None and kind == _SLIDING else None for kind in kinds]


_READERS: dict[str, Callable[[ConfigReader, str], CausalSizes]] = {
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _qwen,
    "qwen3": _qwen,
}
