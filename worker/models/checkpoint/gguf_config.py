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
from worker.graphs.checkpoint_weights import MAX_LAYERS
from worker.models.checkpoint.gguf_file import GgufFile, can_read
from worker.models.checkpoint.gguf_settings import GgufSettings, NoGraphsError

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
# Keys that may only say what is computed anyway; None: whatever they say.
_HARMLESS = {
    "attention.causal": True,
    "expert_count": 0,
    "expert_used_count": 0,
    "pooling_type": 0,
    "rope.scaling.attn_factor": 1.0,
    "rope.scaling.finetuned": None,
    "vocab_size": None,
}
_MAX_POSITIONS = 1 << 20  # 1 GiB of rotations with heads of 128; Qwen2.5-1M has 1,010,000
ROPE_FREQS = "rope_freqs.weight"
_LONGROPE = {"long_factor": "rope_factors_long.weight", "short_factor": "rope_factors_short.weight"}
UNREAD_TENSORS = (ROPE_FREQS, *_LONGROPE.values())  # which have become settings here


def read_config(file: GgufFile) -> dict[str, Any]:
    """What the config.json of the checkpoint would say; raise NoGraphsError for what no graph can be built of, and
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFamily:
    """What a file of an architecture stands for."""

    model_type: str  # in config.json
    own: Callable[[GgufSettings, dict[str, Any]], dict[str, Any]] | None = None  # further settings, from common ones
    activation: tuple[str, str] = ("hidden_act", "silu")
    epsilon: str = "rms_norm_eps"
    rotates: bool = True
    # Of its tensors, beside their names:
    has_permuted_heads: bool = False  # rotates neighbours (LLAMA_ROPE_TYPE_NORM), transformers the halves of a head
    adds_one_to_norms: bool = False  # norms hold the factor, and checkpoints the factor less 1
    has_stacked_qkv: bool = False  # checkpoints have queries, keys and values of each group of heads together
    is_transposed: bool = False  # checkpoints have products as (inputs, outputs)


def _biases(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    return {"attention_bias": settings.has("blk.0.attn_q.bias"), "mlp_bias": settings.has("blk.0.ffn_gate.bias")}


def _qwen3(settings: GgufSettings, config: dict[str, Any]) -> dict[str, Any]:
    return {"attention_bias": settings.has("blk.0.attn_q.bias")}


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


FAMILIES = {
    "llama": GgufFamily(model_type="llama", own=_biases, has_permuted_heads=True),
    "qwen2": GgufFamily(model_type="qwen2"),
    "qwen3": GgufFamily(model_type="qwen3", own=_qwen3),
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
}


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
    divisors = file.tensors[ROPE_FREQS].read()
    if divisors.shape != (head_size // 2,) or not (np.isfinite(divisors).all() and (divisors > 0).all()):
        raise ModelError(f"{file.path} has an invalid {ROPE_FREQS}: download it again")
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
