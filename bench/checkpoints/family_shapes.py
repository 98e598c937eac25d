"""The families of `bench.families`: their config.json, in a distilled model's size or tiny.

Knows: names and numbers. Does not know: torch, engines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DISTILLED, TINY = "distilled", "tiny"  # tiny: to try the benchmark in seconds
SIZES = (DISTILLED, TINY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What all families of a kind have in common."""

    width: int  # D
    layers: int  # of the encoder, and as many of the decoder
    heads: int
    kv_heads: int  # where a family shares keys and values
    head_size: int  # where it is not D / heads
    ffn: int
    gated_ffn: int  # three matrices take as long as two of `ffn`
    vocab_size: int
    max_positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of models, by its `model_type`."""

    own: Callable[[Sizes], dict[str, Any]]  # config.json besides what `config` adds
    is_seq2seq: bool
    is_converted: bool = True  # by CTranslate2

    def config(self, size: str) -> dict[str, Any]:
        """The settings that transformers makes a configuration of."""
        sizes = (SEQ2SEQ_SIZES if self.is_seq2seq else CAUSAL_SIZES)[size]
        return {"vocab_size": sizes.vocab_size, **self.own(sizes)}


SEQ2SEQ_SIZES = {
    DISTILLED: Sizes(
        width=512, layers=6, heads=8, kv_heads=8, head_size=64, ffn=2048, gated_ffn=1024, vocab_size=32_000,
        max_positions=512,
    ),
    TINY: Sizes(
        width=32, layers=2, heads=4, kv_heads=4, head_size=8, ffn=64, gated_ffn=48, vocab_size=1_024, max_positions=128
    ),
}  # fmt: skip
CAUSAL_SIZES = {
    DISTILLED: Sizes(
        width=768, layers=6, heads=12, kv_heads=4, head_size=256, ffn=3072, gated_ffn=2048, vocab_size=32_000,
        max_positions=1_024,
    ),
    TINY: Sizes(
        width=64, layers=2, heads=4, kv_heads=2, head_size=16, ffn=128, gated_ffn=96, vocab_size=1_024,
        max_positions=128,
    ),
}  # fmt: skip
# Standard deviation of the weights. With transformers' 0.02 nearly every token is the one before it.
_SPREAD = 0.05


def _fairseq(sizes: Sizes) -> dict[str, Any]:
    """What M2M100, BART, mBART and Pegasus have in common."""
    return {
        "d_model": sizes.width,
        "encoder_layers": sizes.layers,
        "decoder_layers": sizes.layers,
        "encoder_attention_heads": sizes.heads,
        "decoder_attention_heads": sizes.heads,
        "encoder_ffn_dim": sizes.ffn,
        "decoder_ffn_dim": sizes.ffn,
        "max_position_embeddings": sizes.max_positions,
        "init_std": _SPREAD,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    }


def _t5(sizes: Sizes) -> dict[str, Any]:
    return {
        "d_model": sizes.width,
        "d_kv": sizes.width // sizes.heads,
        "num_layers": sizes.layers,
        "num_heads": sizes.heads,
        "n_positions": sizes.max_positions,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    }


def _causal(sizes: Sizes) -> dict[str, Any]:
    """What most causal families have in common."""
    return {
        "hidden_size": sizes.width,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "intermediate_size": sizes.ffn,
        "max_position_embeddings": sizes.max_positions,
        **_SPECIAL,
    }


def _gated(sizes: Sizes) -> dict[str, Any]:
    """What those with a gate and shared keys and values have in common."""
    return {
        **_causal(sizes),
        "intermediate_size": sizes.gated_ffn,
        "num_key_value_heads": sizes.kv_heads,
        "tie_word_embeddings": False,
    }


def _gemma(sizes: Sizes) -> dict[str, Any]:
    """Few heads that are wider than usual, with one key and value, as Gemma 2B has them."""
    return {
        **_gated(sizes),
        "num_attention_heads": max(2, sizes.width // sizes.head_size),
        "num_key_value_heads": 1,
        "head_dim": sizes.head_size,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
    }


_SPECIAL = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None, "initializer_range": _SPREAD}
FAMILIES = {
    "m2m_100": Family(
        own=lambda sizes: {**_fairseq(sizes), "activation_function": "relu", "scale_embedding": True}, is_seq2seq=True
    ),
    "mbart": Family(
        own=lambda sizes: {
            **_fairseq(sizes),
            "activation_function": "gelu",
            "scale_embedding": True,
            "normalize_before": True,
            "normalize_embedding": True,
            "add_final_layer_norm": True,
            "tokenizer_class": "MBart50Tokenizer",  # CTranslate2's converter reads from it how targets begin
        },
        is_seq2seq=True,
    ),
    "bart": Family(
        own=lambda sizes: {
            **_fairseq(sizes),
            "activation_function": "gelu",
            "scale_embedding": False,
            "normalize_before": False,
            "normalize_embedding": True,
        },
        is_seq2seq=True,
    ),
    "pegasus": Family(
        own=lambda sizes: {
            **_fairseq(sizes),
            "activation_function": "relu",
            "scale_embedding": True,
            "normalize_before": True,
            "normalize_embedding": False,
            "add_final_layer_norm": True,
            "pad_token_id": 0,
            "eos_token_id": 1,
            "decoder_start_token_id": 0,
        },
        is_seq2seq=True,
    ),
    "t5": Family(own=lambda sizes: {**_t5(sizes), "d_ff": sizes.ffn, "feed_forward_proj": "relu"}, is_seq2seq=True),
    "mt5": Family(
        own=lambda sizes: {
            **_t5(sizes),
            "d_ff": sizes.gated_ffn,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
        },
        is_seq2seq=True,
    ),
    "gpt2": Family(
        own=lambda sizes: {
            "n_embd": sizes.width,
            "n_layer": sizes.layers,
            "n_head": sizes.heads,
            "n_inner": sizes.ffn,
            "n_positions": sizes.max_positions,
            **_SPECIAL,
        },
        is_seq2seq=False,
    ),
    "gpt_neox": Family(own=lambda sizes: {**_causal(sizes), "rotary_pct": 0.25}, is_seq2seq=False),
    "opt": Family(
        own=lambda sizes: {
            **{
                name: value
                for name, value in _causal(sizes).items()
                if name not in ("intermediate_size", "initializer_range")
            },
            "ffn_dim": sizes.ffn,
            "init_std": _SPREAD,
            "word_embed_proj_dim": sizes.width,
            "pad_token_id": 1,
        },
        is_seq2seq=False,
    ),
    "bloom": Family(
        own=lambda sizes: {"hidden_size": sizes.width, "n_layer": sizes.layers, "n_head": sizes.heads, **_SPECIAL},
        is_seq2seq=False,
    ),
    # As Falcon 7B: one key and value, attention beside the feed-forward.
    "falcon": Family(
        own=lambda sizes: {
            **{name: value for name, value in _causal(sizes).items() if name != "intermediate_size"},
            "ffn_hidden_size": sizes.ffn,
            "multi_query": True,
            "parallel_attn": True,
        },
        is_seq2seq=False,
    ),
    # CTranslate2's converter asks for the classes that Phi had before it was in transformers.
    "phi": Family(
        own=lambda sizes: {**_causal(sizes), "partial_rotary_factor": 0.5}, is_seq2seq=False, is_converted=False
    ),
    "llama": Family(own=_gated, is_seq2seq=False),
    "qwen2": Family(own=lambda sizes: {**_gated(sizes), "tie_word_embeddings": True}, is_seq2seq=False),
    "gemma": Family(own=_gemma, is_seq2seq=False),
    "mistral": Family(
        own=lambda sizes: {**_gated(sizes), "head_dim": sizes.width // sizes.heads, "sliding_window": None},
        is_seq2seq=False,
    ),
}
