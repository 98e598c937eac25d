"""
Families with gated feed-forwards: Llama and its kin.

Knows: their settings, and the defaults of these in transformers 4.57 (configuration_*.py, modeling_*.py of each). A
setting that changes what the network computes is read or refused. Does not know: graphs, weight files.

    llama     biases if config.json asks for them        (SmolLM and SmolLM2 are of this family)
    mistral   no biases, a sliding window
    qwen2     biases of queries, keys and values
    qwen3     queries and keys are normalized head by head
    granite   scales of embeddings, attention, residual and logits
    olmo      layer norms without weights; queries, keys and values may be clipped
    olmo2     norms behind attention and feed-forward; queries and keys are normalized over all heads
    stablelm  layer norms, a quarter of each head is rotated; attention and feed-forward may be parallel, and each head
              of queries and keys may have a norm of its own
    smollm3   some layers do not rotate
    phi3      fused products, longrope
"""

from collections.abc import Mapping, Sequence

from jobs.errors import ModelError
from worker.graphs.causal import tensor_names
from worker.graphs.causal.block import CausalBlock, HeadNorm, Norm
from worker.graphs.causal.config_reader import ConfigReader
from worker.graphs.causal.description import FULL, SLIDING, WINDOW, describe, kv_heads_of, one_rope, size_of, windows_of
from worker.graphs.causal.rope import LONGROPE, Rope, rope_kind
from worker.graphs.causal.sizes import CausalSizes


def read_llama(config: ConfigReader, family: str) -> CausalSizes:
    has_bias = config.flag("attention_bias") and family != "mistral"
    block = CausalBlock(
        epsilon=config.number("rms_norm_eps", 1e-6),
        activation=config.activation("hidden_act", "silu"),
        qkv_bias=has_bias,
        out_bias=has_bias,
        inner_bias=config.flag("mlp_bias") and family == "llama",
    )
    return describe(
        config,
        family,
        block,
        tensor_names.LLAMA,
        kv_heads=kv_heads_of(config, 8) if family == "mistral" else size_of(config, "num_key_value_heads"),
        head_size=size_of(config, "head_dim"),
        windows=[config.window(WINDOW)] * config.sizes()["num_hidden_layers"] if family == "mistral" else None,
    )


def read_qwen(config: ConfigReader, family: str) -> CausalSizes:
    is_third = family == "qwen3"
    has_bias = config.flag("attention_bias") and is_third
    block = CausalBlock(
        epsilon=config.number("rms_norm_eps", 1e-6),
        activation=config.activation("hidden_act", "silu"),
        qkv_bias=has_bias or not is_third,
        out_bias=has_bias,
        head_norm=HeadNorm.HEAD if is_third else None,
    )
    return describe(
        config,
        family,
        block,
        tensor_names.LLAMA,
        kv_heads=kv_heads_of(config, 32),
        head_size=size_of(config, "head_dim", 128 if is_third else None),
        windows=_qwen_windows(config),
    )


def _qwen_windows(config: ConfigReader) -> list[int | None]:
    layers = config.sizes()["num_hidden_layers"]
    first = int(config.number("max_window_layers", 28))
    window = config.window(WINDOW) if config.flag("use_sliding_window") else None
    defaults = [SLIDING if window is not None and layer >= first else FULL for layer in range(layers)]
    return windows_of(config.layer_types(layers, defaults), window)


def read_granite(config: ConfigReader, family: str) -> CausalSizes:
    has_bias = config.flag("attention_bias")
    block = CausalBlock(
        epsilon=config.number("rms_norm_eps", 1e-6),
        activation=config.activation("hidden_act", "silu"),
        qkv_bias=has_bias,
        out_bias=has_bias,
        inner_bias=config.flag("mlp_bias"),
        attention_scale=config.number("attention_multiplier", 1.0),
        residual_scale=config.number("residual_multiplier", 1.0),
        embedding_scale=config.number("embedding_multiplier", 1.0),
        logit_scale=1 / config.positive("logits_scaling", 1.0),
    )
    kv_heads, head_size = size_of(config, "num_key_value_heads"), size_of(config, "head_dim")
    return describe(config, family, block, tensor_names.LLAMA, kv_heads=kv_heads, head_size=head_size)


def read_olmo(config: ConfigReader, family: str) -> CausalSizes:
    has_bias = config.flag("attention_bias")
    is_first = family == "olmo"
    block = CausalBlock(
        norm=Norm.LAYER if is_first else Norm.RMS,
        norm_weight=not is_first,
        epsilon=1e-5 if is_first else config.number("rms_norm_eps", 1e-5),
        norms_before=is_first,
        norms_after=not is_first,
        activation=config.activation("hidden_act", "silu"),
        qkv_bias=has_bias,
        out_bias=has_bias,
        head_norm=None if is_first else HeadNorm.PROJECTION,
        clip_qkv=config.optional_number("clip_qkv") if is_first else None,
    )
    names = tensor_names.LLAMA if is_first else tensor_names.OLMO2
    kv_heads, head_size = size_of(config, "num_key_value_heads"), size_of(config, "head_dim")
    return describe(config, family, block, names, kv_heads=kv_heads, head_size=head_size)


def read_stablelm(config: ConfigReader, family: str) -> CausalSizes:
    is_parallel = config.flag("use_parallel_residual")
    block = CausalBlock(
        norm=Norm.LAYER,
        norm_bias=True,
        epsilon=config.number("layer_norm_eps", 1e-5),
        is_parallel=is_parallel,
        shares_norm=is_parallel,
        head_norm=HeadNorm.EACH_HEAD if config.flag("qk_layernorm") else None,
        activation=config.activation("hidden_act", "silu"),
        qkv_bias=config.flag("use_qkv_bias"),
    )
    ropes = one_rope(config.filled(partial_rotary_factor=0.25), is_partial=True)
    kv_heads = kv_heads_of(config, 32)
    return describe(config, family, block, tensor_names.STABLELM, kv_heads=kv_heads, ropes=ropes)


def read_smollm3(config: ConfigReader, family: str) -> CausalSizes:
    has_bias = config.flag("attention_bias")
    block = CausalBlock(
        epsilon=config.number("rms_norm_eps", 1e-6),
        activation=config.activation("hidden_act", "silu"),
        qkv_bias=has_bias,
        out_bias=has_bias,
        inner_bias=config.flag("mlp_bias"),
    )
    layers = config.sizes()["num_hidden_layers"]
    interval = int(config.positive("no_rope_layer_interval", 4))
    rotated = config.content.get("no_rope_layers") or [(layer + 1) % interval for layer in range(layers)]
    if not isinstance(rotated, list) or len(rotated) != layers:
        raise ModelError(
            f"config.json gives no_rope_layers other than a list of one number for each of {layers} layers"
        )
    window = config.window(None) if config.flag("use_sliding_window") else None
    kinds = config.layer_types(layers, [FULL if window is None or rotates else SLIDING for rotates in rotated])
    every = one_rope(config.filled(rope_theta=2e6))

    def ropes(head_size: int, max_positions: int, layers: int) -> Sequence[Rope | None]:
        ropes = every(head_size, max_positions, layers)
        return [rope if rotates else None for rope, rotates in zip(ropes, rotated, strict=True)]

    return describe(
        config,
        family,
        block,
        tensor_names.LLAMA,
        kv_heads=kv_heads_of(config, 4),
        head_size=size_of(config, "head_dim"),
        ropes=ropes,
        windows=windows_of(kinds, window),
        is_tied=True,
    )


def read_phi3(config: ConfigReader, family: str) -> CausalSizes:
    """With longrope, the longest text is the one up to which transformers takes the factors for short texts."""
    block = CausalBlock(
        epsilon=config.number("rms_norm_eps", 1e-5),
        activation=config.activation("hidden_act", "silu"),
    )
    config = config.filled(original_max_position_embeddings=4096, max_position_embeddings=4096)
    for name in ("rope_scaling", "rope_parameters"):
        scaling = config.content.get(name)
        if isinstance(scaling, Mapping) and scaling.get("type") in ("su", "yarn"):  # older names of longrope
            config = ConfigReader({**config.content, name: {**scaling, "type": LONGROPE}})
    max_positions, layers = config.sizes()["max_position_embeddings"], config.sizes()["num_hidden_layers"]
    if rope_kind(config.content) == LONGROPE:
        max_positions = min(max_positions, int(config.content["original_max_position_embeddings"]))
    return describe(
        config,
        family,
        block,
        tensor_names.PHI3,
        kv_heads=size_of(config, "num_key_value_heads"),
        head_size=size_of(config, "head_dim"),
        ropes=one_rope(config, is_partial=True, kinds=("default", LONGROPE)),
        windows=[config.window(None)] * layers,
        max_positions=max_positions,
    )
