"""
The families of Gemma: norms by 1 + weight, scaled embeddings, gated GELU.

Knows: their settings, and the defaults of these in transformers 4.57 (configuration_*.py, modeling_*.py of each). A
setting that changes what the network computes is read or refused. Does not know: graphs, weight files.

    gemma        as Llama otherwise
    gemma2       norms on both sides, caps of scores and logits, a window in every second layer
    gemma3_text  no cap of scores; queries and keys are normalized; layers with a window rotate by another base
"""

from collections.abc import Mapping, Sequence

from worker.graphs.causal import tensor_names
from worker.graphs.causal.block import CausalBlock, HeadNorm
from worker.graphs.causal.config_reader import ConfigReader
from worker.graphs.causal.description import FULL, SLIDING, WINDOW, describe, kv_heads_of, one_rope, size_of, windows_of
from worker.graphs.causal.rope import Rope
from worker.graphs.causal.sizes import CausalSizes


def read_gemma(config: ConfigReader, family: str) -> CausalSizes:
    """The activation is `hidden_act`, as in transformers, not the newer `hidden_activation`."""
    has_bias = config.flag("attention_bias")
    block = CausalBlock(
        epsilon=config.number("rms_norm_eps", 1e-6),
        norm_adds_one=True,
        activation=config.activation("hidden_act", "gelu_pytorch_tanh"),
        qkv_bias=has_bias,
        out_bias=has_bias,
        embedding_scale=float(config.sizes()["hidden_size"]) ** 0.5,
    )
    kv_heads, head_size = kv_heads_of(config, 16), size_of(config, "head_dim", 256)
    return describe(config, family, block, tensor_names.LLAMA, kv_heads=kv_heads, head_size=head_size, is_tied=True)


def read_gemma2(config: ConfigReader, family: str) -> CausalSizes:
    """Gemma-2, and the text part of Gemma-3, whose layers with a window rotate by a base of their own."""
    is_third = family == "gemma3_text"
    config.refuse("use_bidirectional_attention", True)
    if is_third and (cap := config.cap("attn_logit_softcapping", None)) is not None:
        # modeling_gemma3.py reads the setting but does not pass it to its attention, so it is unknown whether such
        # weights were trained with a cap.
        config.refuse("attn_logit_softcapping", cap, "transformers leaves it out; set it to null for what it computes")
    config = config.filled(query_pre_attn_scalar=256, rope_theta=1e6 if is_third else 1e4)
    caps = (None, None) if is_third else (50.0, 30.0)
    has_bias = config.flag("attention_bias")
    block = CausalBlock(
        epsilon=config.number("rms_norm_eps", 1e-6),
        norm_adds_one=True,
        norms_after=True,
        head_norm=HeadNorm.HEAD if is_third else None,
        activation=config.activation("hidden_activation", "gelu_pytorch_tanh"),
        qkv_bias=has_bias,
        out_bias=has_bias,
        embedding_scale=float(config.sizes()["hidden_size"]) ** 0.5,
        attention_scale=config.positive("query_pre_attn_scalar", 256) ** -0.5,
        attention_cap=config.cap("attn_logit_softcapping", caps[0]),
        logit_cap=config.cap("final_logit_softcapping", caps[1]),
    )
    layers, window = config.sizes()["num_hidden_layers"], config.window(WINDOW)
    pattern = int(config.positive("sliding_window_pattern", 6)) if is_third else 2
    kinds = config.layer_types(layers, [SLIDING if (layer + 1) % pattern else FULL for layer in range(layers)])
    by_kind = config.content.get("rope_parameters")  # as transformers 5 writes it
    if is_third and isinstance(by_kind, Mapping) and {*by_kind} == {SLIDING, FULL}:
        every = one_rope(ConfigReader({"rope_parameters": by_kind[FULL]}))
        local = {"rope_parameters": by_kind[SLIDING]}
    else:
        every = one_rope(config)
        local = {"rope_theta": config.positive("rope_local_base_freq", 1e4)}

    def ropes(head_size: int, max_positions: int, layers: int) -> Sequence[Rope | None]:
        whole = every(head_size, max_positions, layers)
        if not is_third:
            return whole
        near = Rope.read(local, head_size, max_positions)
        return [near if kind == SLIDING else rope for kind, rope in zip(kinds, whole, strict=True)]

    return describe(
        config,
        family,
        block,
        tensor_names.GEMMA2,
        kv_heads=kv_heads_of(config, 4),
        head_size=size_of(config, "head_dim", 256),
        ropes=ropes,
        windows=windows_of(kinds, window),
        is_tied=True,
    )
