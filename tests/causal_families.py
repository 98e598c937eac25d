"""
Tiny checkpoints of the further causal families with random weights, written without torch: the names and shapes that
transformers 4.57 writes (tests/live compares them).
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.causal_checkpoints import write_causal_tokenizer
from tests.checkpoints import _write_json, write_weights
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.weights import role_shapes

WIDTH, LAYERS, HEADS, FFN, VOCAB, POSITIONS = 32, 2, 4, 48, 300, 128
SIZES = {
    "hidden_size": WIDTH,
    "intermediate_size": FFN,
    "max_position_embeddings": POSITIONS,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
}
_WITHOUT = {  # those of `SIZES` that a family has under another name, or not at all
    "gpt2": ("intermediate_size", "num_key_value_heads"),
    "opt": ("intermediate_size", "num_key_value_heads"),
    "bloom": ("intermediate_size", "num_key_value_heads", "num_attention_heads", "num_hidden_layers"),
    "falcon": ("intermediate_size", "num_key_value_heads"),
    "gpt_neox": ("num_key_value_heads",),
}
# By a name that begins with that of the family: the class in transformers, and config.json besides `SIZES`.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma": ("GemmaForCausalLM", {"head_dim": 16, "tie_word_embeddings": True, "hidden_act": "gelu_pytorch_tanh"}),
    "gemma, exact gelu": ("GemmaForCausalLM", {"head_dim": 12, "tie_word_embeddings": True, "hidden_act": "gelu"}),
    "granite": (
        "GraniteForCausalLM",
        {
            "embedding_multiplier": 1.7,
            "attention_multiplier": 0.11,
            "residual_multiplier": 0.22,
            "logits_scaling": 1.6,
            "attention_bias": True,
            "mlp_bias": True,
        },
    ),
    "granite, tied": (
        "GraniteForCausalLM",
        {"residual_multiplier": 0.5, "logits_scaling": 4.0, "attention_multiplier": 0.3, "tie_word_embeddings": True},
    ),
    "olmo": ("OlmoForCausalLM", {"clip_qkv": 0.9, "tie_word_embeddings": False}),
    "olmo2": ("Olmo2ForCausalLM", {"rms_norm_eps": 1e-5, "tie_word_embeddings": False}),
    "olmo2, heads of 10": ("Olmo2ForCausalLM", {"head_dim": 10, "attention_bias": True, "tie_word_embeddings": False}),
    "stablelm": ("StableLmForCausalLM", {"partial_rotary_factor": 0.25, "use_qkv_bias": True}),
    "stablelm, parallel": (
        "StableLmForCausalLM",
        {"partial_rotary_factor": 0.5, "use_parallel_residual": True, "num_attention_heads": 2},
    ),
    "stablelm, normalized heads": ("StableLmForCausalLM", {"partial_rotary_factor": 0.25, "qk_layernorm": True}),
    "stablelm, normalized heads of 12": (
        "StableLmForCausalLM",
        {
            "hidden_size": 48,
            "partial_rotary_factor": 0.5,
            "qk_layernorm": True,
            "use_qkv_bias": True,
            "use_parallel_residual": True,
        },
    ),
    "smollm3": (
        "SmolLM3ForCausalLM",
        {"no_rope_layers": [1, 0, 1], "num_hidden_layers": 3, "rope_theta": 5e6, "tie_word_embeddings": True},
    ),
    "smollm3, window": (
        "SmolLM3ForCausalLM",
        {"no_rope_layers": [1, 0], "use_sliding_window": True, "sliding_window": 7, "attention_bias": True},
    ),
    "phi3": ("Phi3ForCausalLM", {"rms_norm_eps": 1e-5, "tie_word_embeddings": False, "sliding_window": 9}),
    "phi3, longrope": (
        "Phi3ForCausalLM",
        {
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "partial_rotary_factor": 0.75,
            "original_max_position_embeddings": 64,
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1.0, 1.1, 1.3, 1.6, 2.0, 2.5],
                "long_factor": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
            },
        },
    ),
    "gemma2": (
        "Gemma2ForCausalLM",
        {
            "head_dim": 16,
            "query_pre_attn_scalar": 24,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
            "sliding_window": 9,
            "num_hidden_layers": 3,
        },
    ),
    "gemma3_text": (
        "Gemma3ForCausalLM",
        {
            "head_dim": 24,
            "query_pre_attn_scalar": 24,
            "sliding_window": 9,
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_theta": 1e6,
            "rope_local_base_freq": 1e4,
            "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        },
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", {"rotary_pct": 0.25, "rotary_emb_base": 1e4}),
    "gpt_neox, sequential": (
        "GPTNeoXForCausalLM",
        {"rotary_pct": 1.0, "rotary_emb_base": 500, "use_parallel_residual": False, "attention_bias": False},
    ),
    "phi": ("PhiForCausalLM", {"partial_rotary_factor": 0.5, "hidden_act": "gelu_new", "vocab_size": 4500}),
    "phi, normalized heads": ("PhiForCausalLM", {"qk_layernorm": True, "num_attention_heads": 2}),
    "phi, normalized heads of 8": ("PhiForCausalLM", {"partial_rotary_factor": 0.25, "qk_layernorm": True}),
    "gpt2": ("GPT2LMHeadModel", {"n_inner": None, "activation_function": "gelu_new"}),
    "gpt2, scales": (
        "GPT2LMHeadModel",
        {"n_inner": 40, "scale_attn_by_inverse_layer_idx": True, "activation_function": "gelu"},
    ),
    "opt": ("OPTForCausalLM", {"ffn_dim": 40, "pad_token_id": 1}),
    "opt, no biases": ("OPTForCausalLM", {"ffn_dim": 40, "enable_bias": False, "pad_token_id": 1}),
    "opt, norms of sums": (
        "OPTForCausalLM",
        {"ffn_dim": 40, "do_layer_norm_before": False, "word_embed_proj_dim": 16, "pad_token_id": 1},
    ),
    "bloom": ("BloomForCausalLM", {"n_layer": 2, "n_head": 4, "seq_length": POSITIONS}),
    "bloom, 3 heads": ("BloomForCausalLM", {"n_layer": 2, "n_head": 3, "hidden_size": 36, "seq_length": POSITIONS}),
    "falcon": ("FalconForCausalLM", {"multi_query": True}),
    "falcon, groups": ("FalconForCausalLM", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon, groups and one norm": (
        "FalconForCausalLM",
        {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1, "bias": True},
    ),
    "falcon, alibi": ("FalconForCausalLM", {"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True}),
}
# Those that GGUF files have, changed where the format cannot say it, or llama.cpp computes something else.
IN_GGUF: dict[str, dict[str, Any]] = {
    "gemma": {},
    "gemma2": {"query_pre_attn_scalar": 16},
    "gemma3_text": {"layer_types": None, "num_hidden_layers": 6},
    "granite": {},
    "granite, tied": {},
    "olmo": {},
    "olmo2": {},
    "stablelm": {},
    "stablelm, parallel": {},
    "smollm3": {"no_rope_layers": None, "num_hidden_layers": 4},
    "phi3": {},
    "phi3, longrope": {"original_max_position_embeddings": 512, "max_position_embeddings": 1024},
    "gpt_neox": {},
    "gpt_neox, sequential": {"attention_bias": True},
    "phi": {"num_key_value_heads": HEADS},
    "gpt2": {},
    "bloom": {},
    "falcon": {},
    "falcon, groups": {},
    "falcon, groups and one norm": {"bias": False},
}


def write_family(folder: Path, name: str, *, seed: int = 0, spread: float = 1.5, **changed: Any) -> Path:
    """Write config.json, weights and a tokenizer; the same arguments give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    config = family_config(name, **changed)
    _write_json(folder / "config.json", config)
    write_weights(folder, random_weights(read_sizes(config), seed=seed, spread=spread), dtype="F32", shards=1)
    write_causal_tokenizer(folder, VOCAB)
    return folder


def family_config(name: str, **changed: Any) -> dict[str, Any]:
    """The config.json of a model in `FAMILIES`; a change to None leaves a setting out."""
    architecture, own = FAMILIES[name]
    family = name.partition(",")[0]
    named = {"architectures": [architecture], "model_type": family, "eos_token_id": 0}
    values = {key: size for key, size in SIZES.items() if key not in _WITHOUT.get(family, ())}
    values |= named | {"bos_token_id": None, "pad_token_id": None} | own | changed
    return {key: value for key, value in values.items() if value is not None or key.endswith("token_id")}


def random_weights(sizes: CausalSizes, *, seed: int, spread: float) -> dict[str, NDArray[np.float32]]:
    """Random weights by their names in a checkpoint. A tied head appears once, as `save_pretrained` writes it."""
    rng = np.random.default_rng(seed)
    names, block = sizes.tensors, sizes.block

    def draw(*shape: int, by: float, about: float = 0.0) -> NDArray[np.float32]:
        return (about + rng.normal(0.0, by, shape)).astype(np.float32)

    def factors(size: int, scale: float = 1.0) -> NDArray[np.float32]:
        drawn = scale * draw(size, by=0.1, about=1.0)
        return drawn - 1 if block.norm_adds_one else drawn

    width = sizes.embedding_width or sizes.width
    weights = {names.embeddings: draw(sizes.vocab_size, width, by=1.0 / block.embedding_scale)}
    if not sizes.tied_head:
        weights[names.head] = draw(sizes.vocab_size, width, by=spread * width**-0.5 / block.logit_scale)
    if names.project_in:
        weights[names.project_in] = draw(sizes.width, width, by=spread * width**-0.5)
        weights[names.project_out] = draw(width, sizes.width, by=0.5 * sizes.width**-0.5)
    if names.positions:
        weights[names.positions] = draw(sizes.position_offset + sizes.max_positions, sizes.width, by=0.5)
    if block.embedding_norm:
        weights[names.embedding_norm] = factors(sizes.width)
    # The final norm is small, so that a tied head, which has the scale of the embeddings, does not saturate.
    small = 2.0 * block.embedding_scale / block.logit_scale / sizes.width**0.5 if sizes.tied_head else 1.0
    weights |= {names.norm: factors(sizes.width, small)} if block.norm_weight and block.last_norm else {}
    found = {f"{name}.weight": weight for name, weight in weights.items()}
    shapes = role_shapes(sizes)
    for layer in range(sizes.layers):
        for role, (has_weight, has_bias) in names.of_layer(block).items():
            shape, module = shapes[role], names.module(layer, role)
            drawn = factors(*shape) if len(shape) == 1 else draw(*shape, by=spread * shape[1] ** -0.5)
            if role in sizes.head_norms:
                found |= {f"{each}.weight": factors(*shape) for each in sizes.modules(layer, role)}
            elif has_weight:
                is_stored_transposed = names.is_transposed and len(shape) == 2
                found[f"{module}.weight"] = np.ascontiguousarray(drawn.T) if is_stored_transposed else drawn
            if has_bias:
                found[f"{module}.bias"] = draw(shape[0], by=0.2)
    if block.norm_bias:
        found |= {f"{names.norm}.bias": draw(sizes.width, by=0.05)} if block.last_norm else {}
        found |= {f"{names.embedding_norm}.bias": draw(sizes.width, by=0.2)} if block.embedding_norm else {}
    return found | ({f"{names.head}.bias": draw(sizes.vocab_size, by=0.5)} if block.head_bias else {})
