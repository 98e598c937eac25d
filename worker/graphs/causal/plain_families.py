"""
Families with layer norms and plain feed-forwards: GPT-2 and what came after it.

Knows: their settings, and the defaults of these in transformers 4.57 (configuration_*.py, modeling_*.py of each). A
setting that changes what the network computes is read or refused. Does not know: graphs, weight files.

    gpt2      learned positions, products stored as (inputs, outputs)
    opt       learned positions behind two unused rows, ReLU
    gpt_neox  a quarter of each head is rotated, attention and feed-forward are parallel (Pythia)
    phi       parallel behind one norm, a bias of the logits; queries and keys may be normalized head by head
    bloom     ALiBi, a norm of the embeddings
    falcon    parallel behind one norm or two, one key/value head or several; ALiBi in Falcon-RW
"""

from dataclasses import replace

from jobs.errors import ModelError
from worker.graphs.causal import tensor_names
from worker.graphs.causal.alibi import Alibi
from worker.graphs.causal.block import CausalBlock, HeadNorm, Norm
from worker.graphs.causal.config_reader import ConfigReader
from worker.graphs.causal.description import describe, no_rope, one_rope, size_of
from worker.graphs.causal.sizes import CausalSizes


def read_gpt_neox(config: ConfigReader, family: str) -> CausalSizes:
    has_bias = config.flag("attention_bias", True)
    block = CausalBlock(
        norm=Norm.LAYER,
        norm_bias=True,
        epsilon=config.number("layer_norm_eps", 1e-5),
        is_parallel=config.flag("use_parallel_residual", True),
        activation=config.activation("hidden_act", "gelu"),
        is_gated=False,
        qkv_bias=has_bias,
        out_bias=has_bias,
        inner_bias=True,
    )
    own = {
        "partial_rotary_factor": config.number("rotary_pct", 0.25),
        "rope_theta": config.number("rotary_emb_base", 1e4),
    }
    ropes = one_rope(ConfigReader({**config.content, **own}), is_partial=True)
    return describe(config, family, block, tensor_names.GPT_NEOX, ropes=ropes)


def read_phi(config: ConfigReader, family: str) -> CausalSizes:
    has_head_norm = config.flag("qk_layernorm")
    block = CausalBlock(
        norm=Norm.LAYER,
        norm_bias=True,
        epsilon=config.number("layer_norm_eps", 1e-5),
        is_parallel=True,
        shares_norm=True,
        head_norm=HeadNorm.HEAD if has_head_norm else None,
        head_norm_bias=has_head_norm,
        activation=config.activation("hidden_act", "gelu_new"),
        is_gated=False,
        qkv_bias=True,
        out_bias=True,
        inner_bias=True,
        head_bias=True,
    )
    ropes = one_rope(config.filled(partial_rotary_factor=0.5), is_partial=True)
    kv_heads, head_size = size_of(config, "num_key_value_heads"), size_of(config, "head_dim")
    return describe(config, family, block, tensor_names.PHI, kv_heads=kv_heads, head_size=head_size, ropes=ropes)


def read_gpt2(config: ConfigReader, family: str) -> CausalSizes:
    config.refuse("add_cross_attention", True)
    block = CausalBlock(
        norm=Norm.LAYER,
        norm_bias=True,
        epsilon=config.number("layer_norm_epsilon", 1e-5),
        activation=config.activation("activation_function", "gelu_new"),
        is_gated=False,
        qkv_bias=True,
        out_bias=True,
        inner_bias=True,
        attention_scale=None if config.flag("scale_attn_weights", True) else 1.0,
    )
    width = size_of(config, "hidden_size") or size_of(config, "n_embd", 0) or 0
    defaults = {"intermediate_size": 4 * width}
    layers = config.sizes(defaults)["num_hidden_layers"]
    by_layer = config.flag("scale_attn_by_inverse_layer_idx")
    scales = tuple(1 / (layer + 1) for layer in range(layers)) if by_layer else ()
    network = describe(config, family, block, tensor_names.GPT2, defaults=defaults, ropes=no_rope, is_tied=True)
    return replace(network, layer_scales=scales)


def read_opt(config: ConfigReader, family: str) -> CausalSizes:
    """OPT-350m normalizes sums, and its embeddings are narrower than the network."""
    is_before = config.flag("do_layer_norm_before", True)
    embedded = size_of(config, "word_embed_proj_dim")
    if embedded == config.sizes()["hidden_size"]:
        embedded = None
    has_bias, has_weights = config.flag("enable_bias", True), config.flag("layer_norm_elementwise_affine", True)
    block = CausalBlock(
        norm=Norm.LAYER,
        norm_weight=has_weights,
        norm_bias=has_weights,
        epsilon=1e-5,
        norms_before=is_before,
        norms_of_sums=not is_before,
        last_norm=is_before and not config.flag("_remove_final_layer_norm"),
        activation=config.activation("activation_function", "relu"),
        is_gated=False,
        qkv_bias=has_bias,
        out_bias=has_bias,
        inner_bias=has_bias,
    )
    names = tensor_names.OPT if is_before else tensor_names.OPT_OF_SUMS
    if embedded is not None:
        names = replace(names, project_in="model.decoder.project_in", project_out="model.decoder.project_out")
    network = describe(config, family, block, names, ropes=no_rope, is_tied=True)
    return replace(network, position_offset=2, embedding_width=embedded)


def read_bloom(config: ConfigReader, family: str) -> CausalSizes:
    """No limit of positions is part of the network; `seq_length` is what the published models were trained with."""
    config.refuse("apply_residual_connection_post_layernorm", True)
    if config.number("pretraining_tp", 1) > 1:  # the products are then computed in slices, without the biases
        config.refuse("slow_but_exact", True, "transformers leaves biases out with it; set it to false for all of them")
    width = size_of(config, "n_embed") or size_of(config, "hidden_size", 0) or 0
    config = ConfigReader({**config.content, "hidden_size": width, "intermediate_size": 4 * width})
    block = CausalBlock(
        norm=Norm.LAYER,
        norm_bias=True,
        epsilon=config.number("layer_norm_epsilon", 1e-5),
        activation="gelu_pytorch_tanh",
        is_gated=False,
        qkv_bias=True,
        out_bias=True,
        inner_bias=True,
        embedding_norm=True,
    )
    defaults = {"max_position_embeddings": size_of(config, "seq_length", 2048)}
    network = describe(config, family, block, tensor_names.BLOOM, defaults=defaults, ropes=no_rope, is_tied=True)
    return replace(network, alibi=Alibi(is_scaled=False, rounds=False))


def read_falcon(config: ConfigReader, family: str) -> CausalSizes:
    is_new = config.flag("new_decoder_architecture")
    is_parallel = config.flag("parallel_attn", True)
    if is_new and not is_parallel:
        raise ModelError(
            "config.json says new_decoder_architecture = true with parallel_attn = false, for which no graphs are "
            "built: take an ONNX export of it"
        )
    has_alibi, is_shared = config.flag("alibi"), config.flag("multi_query", True) and not is_new
    if has_alibi and (is_shared or is_new):
        raise ModelError(
            "config.json says alibi = true with keys that several heads share (multi_query or "
            "new_decoder_architecture), for which no graphs are built: take an ONNX export of it"
        )
    has_two = is_new and config.content.get("num_ln_in_parallel_attn") in (None, 2)
    has_bias = config.flag("bias")
    block = CausalBlock(
        norm=Norm.LAYER,
        norm_bias=True,
        epsilon=config.number("layer_norm_epsilon", 1e-5),
        is_parallel=is_parallel,
        shares_norm=is_parallel and not has_two,
        activation=config.activation("activation", "gelu"),
        is_gated=False,
        qkv_bias=has_bias,
        out_bias=has_bias,
        inner_bias=has_bias,
    )
    width = size_of(config, "hidden_size", 0) or 0
    network = describe(
        config,
        family,
        block,
        tensor_names.FALCON_TWO_NORMS if has_two else tensor_names.FALCON,
        defaults={"intermediate_size": 4 * width, "max_position_embeddings": 2048},
        kv_heads=1 if is_shared else size_of(config, "num_kv_heads"),
        ropes=no_rope if has_alibi else None,
        is_tied=True,
    )
    return replace(network, alibi=Alibi(is_scaled=True, rounds=True) if has_alibi else None)
