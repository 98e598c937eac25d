"""
T5 and its kin (T5 v1.1, Flan-T5, mT5, MADLAD-400): how their config.json describes a network.

Knows: the keys of config.json, and what T5ForConditionalGeneration and MT5ForConditionalGeneration of transformers 4.57
compute. Does not know: tensors, graphs.
"""

from collections.abc import Mapping
from typing import Any

from jobs.errors import ModelError
from worker.graphs.architectures import MT5
from worker.graphs.checkpoint_weights import MAX_LAYERS
from worker.graphs.seq2seq.network import (
    ACTIVATIONS,
    AttentionHeads,
    Naming,
    Positions,
    RelativePositions,
    Seq2SeqNetwork,
)

# Relative distances have no limit of their own. Published models are trained on texts of 512 tokens, and name no limit,
# or this one.
_POSITIONS = 512
# Defaults in which MT5Config differs from T5Config, for settings that a config.json leaves out.
_MT5_DEFAULTS = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}


def read_t5(content: Mapping[str, Any], architecture: str) -> Seq2SeqNetwork:
    """The network that a config.json describes. Raises ModelError that names what is missing or not supported."""
    named = {name: value for name, value in content.items() if value is not None}
    config: Mapping[str, Any] = {**_MT5_DEFAULTS, **named} if architecture == MT5 else named
    width, number, size = (_size(config, name) for name in ("d_model", "num_heads", "d_kv"))
    layers = _size(config, "num_layers")
    decoder_layers = _size(config, "num_decoder_layers", layers)
    if max(layers, decoder_layers) > MAX_LAYERS:
        raise ModelError(
            f"config.json asks for {max(layers, decoder_layers):,} layers; at most {MAX_LAYERS:,} are supported"
        )
    activation, is_gated = _activation(config)
    tied_head = bool(config.get("tie_word_embeddings", True))
    heads = AttentionHeads(number, size, 1.0)  # the scale is in the weights of the queries
    return Seq2SeqNetwork(
        width=width,
        encoder_heads=heads,
        decoder_heads=heads,
        encoder_layers=layers,
        decoder_layers=decoder_layers,
        encoder_inner=_size(config, "d_ff"),
        decoder_inner=_size(config, "d_ff"),
        activation=activation,
        max_positions=_size(config, "n_positions", _POSITIONS),
        positions=Positions.RELATIVE,
        first_position=0,
        scale=1.0,
        shared_embeddings=True,
        tied_head=tied_head,
        has_head_bias=False,
        norm_first=True,
        embedding_norm=False,
        final_norm=True,
        relative=_relative(config),
        rms_norm=True,
        epsilon=float(config.get("layer_norm_epsilon", 1e-6)),
        has_biases=False,
        is_gated=is_gated,
        head_scale=width**-0.5 if tied_head else 1.0,
        is_wide=True,
        naming=Naming.T5,
    )


def _activation(config: Mapping[str, Any]) -> tuple[str, bool]:
    """`relu`, `gated-gelu` and the like, as T5Config reads them: the activation, and whether it is gated.
    `dense_act_fn` and `is_gated_act`, which transformers derives from it and writes beside it, take precedence."""
    named = str(config.get("feed_forward_proj", "relu"))
    kind, _, gated = named.partition("-")
    activation = gated if kind == "gated" else named
    if named == "gated-gelu":  # which older checkpoints mean by it
        activation = "gelu_new"
    if activation not in ACTIVATIONS:
        known = ", ".join((*ACTIVATIONS, *(f"gated-{name}" for name in ACTIVATIONS)))
        raise ModelError(f"config.json says feed_forward_proj = {named}; supported are {known}")
    activation = str(config.get("dense_act_fn", activation))
    if activation not in ACTIVATIONS:
        raise ModelError(f"config.json says dense_act_fn = {activation}; supported are {', '.join(ACTIVATIONS)}")
    return activation, bool(config.get("is_gated_act", kind == "gated"))


def _relative(config: Mapping[str, Any]) -> RelativePositions:
    buckets = _size(config, "relative_attention_num_buckets", 32)
    farthest = _size(config, "relative_attention_max_distance", 128)
    if buckets < 4 or buckets % 4 or farthest <= buckets // 2:
        raise ModelError(
            f"config.json says relative_attention_num_buckets = {buckets} and relative_attention_max_distance = "
            f"{farthest}; a multiple of 4 and more than half of that are supported"
        )
    return RelativePositions(buckets, farthest)


def _size(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = config.get(name, default)
    if type(value) is not int or value < 1:
        said = "lacks it" if value is None else f"says {name} = {value!r}"
        raise ModelError(f"config.json needs {name}, a size of at least 1, and {said}")
    return value
