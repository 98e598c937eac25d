"""
The config.json that transformers would give the network in a GGUF file.

Knows: the keys of each architecture as llama.cpp's converter writes them (conversion/*.py), and what llama.cpp computes
where a file leaves one out (src/models/*.cpp). Does not know: tensors' values, tokenizers, graphs.

Whatever is not known is refused: it might change what the network computes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobs.errors import ModelError
from worker.graphs.architectures import CAUSAL_ARCHITECTURES
from worker.graphs.causal.description import FULL, SLIDING
from worker.graphs.causal.rope import LONGROPE
from worker.graphs.checkpoint_weights import MAX_LAYERS
from worker.models.checkpoint.gguf_file import GgufFile, can_read
from worker.models.checkpoint.gguf_settings import GgufSettings, NoGraphsError
from worker.models.checkpoint.tensor_files import Weight

_KV_HEADS = "attention.head_count_kv"
_EPSILON, _RMS_EPSILON = "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"
_WINDOW = "attention.sliding_window"
_SIZES = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "num_attention_heads": "attention.head_count",
    "num_hidden_layers": "block_count",
}
# Keys that are allowed only with the value that is computed anyway; None: with any value.
_HARMLESS = {
    "attention.causal": True,
    "expert_count": 0,
    "expert_used_count": 0,
    "pooling_type": 0,
    "rope.scaling.attn_factor": 1.0,
    "rope.scaling.finetuned": None,
    "vocab_size": None,
}
_MAX_HEAD_SIZE = 1 << 16  # before there are arrays of its frequencies
_MAX_POSITIONS = 1 << 20  # 1 GiB of rotations with heads of 128; Qwen2.5-1M has 1,010,000
ROPE_FREQS = "rope_freqs.weight"
_FACTORS = {"long_factor": "rope_factors_long.weight", "short_factor": "rope_factors_short.weight"}


def read_config(file: GgufFile) -> dict[str, Any]:
    """The config.json that the checkpoint would have; raise NoGraphsError where no graph can be built, and
    ModelError for a file that is damaged, or holds no whole model."""
    settings = GgufSettings(file)
    family = FAMILIES.get(settings.architecture)
    if family is None:
        raise NoGraphsError(
            f"{file.path} has the architecture {settings.architecture!r:.40}; of GGUF files, graphs are built of "
            f"{', '.join(FAMILIES)}; of another causal language model `kvjobs models add` takes an ONNX export"
        )
    _refuse_types(file)
    config: dict[str, Any] = {name: settings.size(key) for name, key in _SIZES.items()}
    if config["max_position_embeddings"] > _MAX_POSITIONS:
        raise ModelError(
            f"{file.path} says {settings.architecture}.context_length = {config['max_position_embeddings']:,}; at most "
            f"{_MAX_POSITIONS:,} positions are supported"
        )
    if (layers := config["num_hidden_layers"]) > MAX_LAYERS:
        raise ModelError(f"{file.path}: its metadata asks for {layers:,} layers; at most {MAX_LAYERS:,} are supported")
    heads = config["num_attention_heads"]
    head_size = settings.size("attention.key_length", config["hidden_size"] // heads)
    if not 0 < head_size <= _MAX_HEAD_SIZE:
        raise ModelError(f"{file.path}: its metadata give heads of size {head_size:,}: download it again")
    _check_equal(settings, "attention.value_length", head_size)
    base = settings.number("rope.freq_base", 10_000.0)
    config |= {
        "architectures": [name for name, kind in CAUSAL_ARCHITECTURES.items() if kind == family.model_type],
        "head_dim": head_size,
        family.activation[0]: family.activation[1],
        "model_type": family.model_type,
        "num_key_value_heads": settings.size(_KV_HEADS, heads),
        family.epsilon: settings.number(_RMS_EPSILON if family.epsilon == "rms_norm_eps" else _EPSILON),
        "tie_word_embeddings": not settings.has("output.weight"),
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
    }
    if family.rotates:
        config |= {"rope_scaling": _rope_scaling(settings, base, head_size), "rope_theta": base}
    if family.own is not None:
        config |= family.own(settings, config)
    if "partial_rotary_factor" not in config:
        _check_equal(settings, "rope.dimension_count", head_size)
    for name in ("bos_token_id", "eos_token_id"):
        token_id = file.metadata.get(f"tokenizer.ggml.{name}")
        config[name] = token_id if type(token_id) is int else None
    settings.refuse_unread(_HARMLESS)
    return config


def tensors_in_config(config: dict[str, Any]) -> set[str]:
    """The tensors of the file that have become settings of this config.json."""
    is_longrope = (config.get("rope_scaling") or {}).get("rope_type") == LONGROPE
    return {ROPE_FREQS, *_FACTORS.values()} if is_longrope else {ROPE_FREQS}


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFamily:
    """How the settings and tensors of one architecture's GGUF files become those that transformers has."""

    model_type: str  # in config.json
    own: Callable[[GgufSettings, dict[str, Any]], dict[str, Any]] | None = None  # further settings, from common ones
    activation: tuple[str, str] = ("hidden_act", "silu")
    epsilon: str = "rms_norm_eps"
    rotates: bool = True
    # How its tensors differ, besides their names:
    has_permuted_heads: bool = False  # rotates neighbours (LLAMA_ROPE_TYPE_NORM), transformers the halves of a head
    adds_one_to_norms: bool = False  # norms hold the factor, and checkpoints the factor less 1
    has_stacked_qkv: bool = False  # checkpoints have queries, keys and values of each group of heads together
    is_transposed: bool = False  # checkpoints have products as (inputs, outputs)


def _biases(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    return {"attention_bias": settings.has("blk.0.attn_q.bias"), "mlp_bias": settings.has("blk.0.ffn_gate.bias")}


def _attention_bias(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    return {"attention_bias": settings.has("blk.0.attn_q.bias")}


def _granite(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    if settings.get("rope.scaling.finetuned") is False:
        raise NoGraphsError(f"{settings.file.path} says that its layers do not rotate: add the checkpoint")
    return _biases(settings, config) | {
        "attention_multiplier": settings.number("attention.scale", config["head_dim"] ** -0.5),
        "embedding_multiplier": settings.number("embedding_scale", 1.0),
        "logits_scaling": settings.number("logit_scale"),
        "residual_multiplier": settings.number("residual_scale", 1.0),
    }


def _olmo(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    if config["layer_norm_eps"] != 1e-5:
        raise NoGraphsError(f"{settings.file.path} has another {_EPSILON} than OLMo (1e-05): add the checkpoint")
    has_clip = settings.get("attention.clamp_kqv") is not None
    return {"clip_qkv": settings.number("attention.clamp_kqv") if has_clip else None}


def _stablelm(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    settings.get("use_parallel_residual")  # llama.cpp goes by the norm, and its converter may be wrong about this
    return _rotated_part(settings, config) | {
        "use_parallel_residual": not settings.has("blk.0.ffn_norm.weight"),
        "use_qkv_bias": settings.has("blk.0.attn_q.bias"),
    }


def _smollm3(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    return _biases(settings, config) | {"no_rope_layer_interval": 4}  # as in llama.cpp; the format leaves it out


def _phi3(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    """llama.cpp attends to all tokens; here the window of the file counts, as in transformers."""
    own = _rotated_part(settings, config)
    own["original_max_position_embeddings"] = settings.size(
        "rope.scaling.original_context_length", config["max_position_embeddings"]
    )
    if settings.has(_FACTORS["short_factor"]):
        pairs = int(config["head_dim"] * own["partial_rotary_factor"]) // 2
        own["rope_scaling"] = {
            "rope_type": LONGROPE,
            "attention_factor": settings.number("rope.scaling.attn_factor", 1.0),
            **{name: _divisors(settings.file, tensor, pairs).tolist() for name, tensor in _FACTORS.items()},
        }
    own["sliding_window"] = None if settings.get(_WINDOW) == 0 else settings.optional_size(_WINDOW)  # 0: Phi-4
    return own


def _gpt_neox(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    part = _rotated_part(settings, config)
    return part | {
        "attention_bias": settings.has("blk.0.attn_qkv.bias"),
        "rotary_emb_base": config["rope_theta"],
        "rotary_pct": part["partial_rotary_factor"],
        "use_parallel_residual": settings.get("use_parallel_residual") is True,
    }


def _bloom(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "n_head": config["num_attention_heads"],
        "n_layer": config["num_hidden_layers"],
        "seq_length": config["max_position_embeddings"],
    }


def _falcon(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    if (layout := settings.get("tensor_data_layout")) != "jploski":
        raise NoGraphsError(f"{settings.file.path} orders queries as {layout!r:.40}: convert it again")
    has_two, is_shared = settings.has("blk.0.attn_norm_2.weight"), config["num_key_value_heads"] == 1
    return {
        "bias": settings.has("blk.0.attn_qkv.bias"),
        "multi_query": is_shared and not has_two,
        "new_decoder_architecture": has_two or not is_shared,
        "num_kv_heads": config["num_key_value_heads"],
        "num_ln_in_parallel_attn": 2 if has_two else 1,
    }


def _rotated_part(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    head_size = config["head_dim"]
    rotated = settings.size("rope.dimension_count", head_size)
    part = rotated / head_size
    return {"partial_rotary_factor": part if int(head_size * part) == rotated else math.nextafter(part, 1)}


def _gemma2(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    layers = config["num_hidden_layers"]
    return {
        "attn_logit_softcapping": settings.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": settings.number("final_logit_softcapping", 30.0),
        "layer_types": _layer_types(settings, layers, 2),
        "query_pre_attn_scalar": _scalar(config, large=46),
        "sliding_window": settings.size(_WINDOW, 4096),
    }


def _gemma3(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    layers, window = config["num_hidden_layers"], settings.optional_size(_WINDOW)
    has_cap = settings.get("final_logit_softcapping") is not None
    return {
        "final_logit_softcapping": settings.number("final_logit_softcapping") if has_cap else None,
        "layer_types": [FULL] * layers if window is None else _layer_types(settings, layers, 6),
        "query_pre_attn_scalar": _scalar(config, large=62),
        "rope_local_base_freq": settings.number("rope.freq_base_swa", 10_000.0),
        "sliding_window": window,
    }


def _scalar(config: dict[str, Any], *, large: int) -> int:
    """`query_pre_attn_scalar`, which the format leaves out: llama.cpp knows the model of 27B by its `large` layers."""
    if config["num_hidden_layers"] == large:
        return int(config["hidden_size"] // config["num_attention_heads"])
    return int(config["head_dim"])


def _layer_types(settings: GgufSettings, layers: int, every: int) -> list[str]:
    """`layer_types`: as the file says it of each layer, else the last of `every` so many is full."""
    pattern = settings.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return [SLIDING if slides else FULL for slides in pattern]
    every = settings.size("attention.sliding_window_pattern", every)
    return [SLIDING if (layer + 1) % every else FULL for layer in range(layers)]


_LAYER_NORM_EPS, _LAYER_NORM_EPSILON = "layer_norm_eps", "layer_norm_epsilon"
FAMILIES = {
    "llama": GgufFamily(model_type="llama", own=_biases, has_permuted_heads=True),
    "qwen2": GgufFamily(model_type="qwen2"),
    "qwen3": GgufFamily(model_type="qwen3", own=_attention_bias),
    "gemma": GgufFamily(model_type="gemma", activation=("hidden_act", "gelu_pytorch_tanh"), adds_one_to_norms=True),
    "gemma2": GgufFamily(
        model_type="gemma2",
        own=_gemma2,
        activation=("hidden_activation", "gelu_pytorch_tanh"),
        adds_one_to_norms=True,
    ),
    "gemma3": GgufFamily(
        model_type="gemma3_text",
        own=_gemma3,
        activation=("hidden_activation", "gelu_pytorch_tanh"),
        adds_one_to_norms=True,
    ),
    "granite": GgufFamily(model_type="granite", own=_granite, has_permuted_heads=True),
    "olmo": GgufFamily(model_type="olmo", own=_olmo, epsilon=_LAYER_NORM_EPS, has_permuted_heads=True),
    "olmo2": GgufFamily(model_type="olmo2", own=_attention_bias),
    "stablelm": GgufFamily(model_type="stablelm", own=_stablelm, epsilon=_LAYER_NORM_EPS),
    "smollm3": GgufFamily(model_type="smollm3", own=_smollm3, has_permuted_heads=True),
    "phi3": GgufFamily(model_type="phi3", own=_phi3),
    "gptneox": GgufFamily(
        model_type="gpt_neox",
        own=_gpt_neox,
        activation=("hidden_act", "gelu"),
        epsilon=_LAYER_NORM_EPS,
        has_stacked_qkv=True,
    ),
    "phi2": GgufFamily(
        model_type="phi", own=_rotated_part, activation=("hidden_act", "gelu_new"), epsilon=_LAYER_NORM_EPS
    ),
    "gpt2": GgufFamily(
        model_type="gpt2",
        activation=("activation_function", "gelu_new"),
        epsilon=_LAYER_NORM_EPSILON,
        rotates=False,
        is_transposed=True,
    ),
    "bloom": GgufFamily(
        model_type="bloom", own=_bloom, epsilon=_LAYER_NORM_EPSILON, rotates=False, has_stacked_qkv=True
    ),
    "falcon": GgufFamily(
        model_type="falcon",
        own=_falcon,
        activation=("activation", "gelu"),
        epsilon=_LAYER_NORM_EPSILON,
        has_stacked_qkv=True,
    ),
}


def _divisors(file: GgufFile, name: str, pairs: int) -> Weight:
    """A tensor of one number above 0 for each pair of rotated elements."""
    tensor = file.tensors.get(name)
    divisors = tensor.read() if tensor is not None and tensor.shape == (pairs,) else None
    if divisors is None or not (np.isfinite(divisors).all() and (divisors > 0).all()):
        raise ModelError(f"{file.path} has no valid {name}: download it again")
    return divisors


def _refuse_types(file: GgufFile) -> None:
    others = sorted(kind for kind in {tensor.type for tensor in file.tensors.values()} if not can_read(kind))
    if others:
        raise NoGraphsError(
            f"{file.path} holds weights as {', '.join(others)}, which the package gguf does not dequantize: add the "
            "checkpoint it was made from"
        )


def _check_equal(settings: GgufSettings, key: str, head_size: int) -> None:
    if (size := settings.size(key, head_size)) != head_size:
        raise NoGraphsError(
            f"{settings.file.path} says {settings.architecture}.{key} = {size} with heads of size {head_size}; only "
            "equal sizes are supported"
        )


def _rope_scaling(settings: GgufSettings, base: float, head_size: int) -> dict[str, Any] | None:
    """`rope_scaling` of config.json: none, linear, yarn, or llama3 as the tensor rope_freqs says."""
    kind = settings.get("rope.scaling.type") or "none"
    if settings.has(ROPE_FREQS):
        if kind != "none":
            raise ModelError(
                f"{settings.file.path} has both {ROPE_FREQS} and rope.scaling.type = {kind!r}; one is supported"
            )
        return _llama3(settings.file, base, head_size)
    match kind:
        case "none":
            return None
        case "linear":
            return {"rope_type": "linear", "factor": settings.number("rope.scaling.factor")}
        case "yarn":
            return {
                "rope_type": "yarn",
                "factor": settings.number("rope.scaling.factor"),
                "original_max_position_embeddings": settings.size("rope.scaling.original_context_length"),
            }
    raise NoGraphsError(
        f"{settings.file.path} says rope.scaling.type = {kind!r:.40}; supported are none, linear, yarn and Llama 3's: "
        "add the checkpoint that it was made from"
    )


def _llama3(file: GgufFile, base: float, head_size: int) -> dict[str, Any] | None:
    """The scaling of Llama 3.1 and later, whose settings the file gives only as the divisor of each frequency.

    They are found by trial: with the low and high factor that all published models have, and each power of two as the
    original context. Raises ModelError where none of them gives the divisors of the file.
    """
    divisors = _divisors(file, ROPE_FREQS, head_size // 2)
    if (divisors == 1).all():
        return None
    factor, low, high = float(divisors.max()), 1.0, 4.0
    frequencies = 1.0 / base ** (np.arange(0, head_size, 2) / head_size)
    for original in sorted((1 << power for power in range(4, 24)), key=lambda length: length != 8192):
        rotations = original * frequencies / (2 * math.pi)
        kept = np.clip((rotations - low) / (high - low), 0, 1)
        if np.allclose(divisors, 1 / (kept + (1 - kept) / factor), rtol=1e-5, atol=0):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": original,
            }
    raise NoGraphsError(
        f"{file.path} scales positions (by its tensor {ROPE_FREQS}) in another way than Llama 3 does: add the "
        "checkpoint that it was made from"
    )
