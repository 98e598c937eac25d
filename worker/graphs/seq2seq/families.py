"""
The seq2seq families that native graphs are built for: how their config.json describes a network.

Knows: the keys of config.json, and what each class of transformers 4.57 computes. Does not know: tensors, graphs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.errors import ModelError
from worker.graphs.architectures import BART, M2M100, MARIAN, MBART, MT5, PEGASUS, T5, architecture_of
from worker.graphs.checkpoint_weights import MAX_LAYERS
from worker.graphs.seq2seq.network import ACTIVATIONS, AttentionHeads, Positions, Seq2SeqNetwork
from worker.graphs.seq2seq.t5_family import read_t5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The properties of a family's class in transformers that no setting of config.json changes."""

    positions: Positions
    first_position: int = 0
    norm_first: bool
    embedding_norm: bool = False
    final_norm: bool
    has_head_bias: bool  # final_logits_bias
    scales_embeddings: bool  # where config.json does not say
    supported: Mapping[str, Any]  # settings that older checkpoints spell out, with the value that the class computes


_FAMILIES = {
    # modeling_marian.py
    MARIAN: _Family(
        positions=Positions.SINUSOIDAL,
        norm_first=False,
        final_norm=False,
        has_head_bias=True,
        scales_embeddings=False,
        supported={
            "normalize_before": False,
            "normalize_embedding": False,
            "add_final_layer_norm": False,
            "add_bias_logits": False,
            "static_position_embeddings": True,
            "extra_pos_embeddings": 0,
        },
    ),
    # modeling_m2m_100.py, of NLLB-200 too
    M2M100: _Family(
        positions=Positions.FAIRSEQ,
        norm_first=True,
        final_norm=True,
        has_head_bias=False,
        scales_embeddings=True,
        supported={"normalize_before": True},
    ),
    # modeling_bart.py
    BART: _Family(
        positions=Positions.LEARNED,
        first_position=2,
        norm_first=False,
        embedding_norm=True,
        final_norm=False,
        has_head_bias=True,
        scales_embeddings=False,
        supported={
            "normalize_before": False,
            "normalize_embedding": True,
            "add_final_layer_norm": False,
            "add_bias_logits": False,
            "static_position_embeddings": False,
            "extra_pos_embeddings": 2,
        },
    ),
    # modeling_mbart.py, of mBART-50
    MBART: _Family(
        positions=Positions.LEARNED,
        first_position=2,
        norm_first=True,
        embedding_norm=True,
        final_norm=True,
        has_head_bias=True,
        scales_embeddings=False,
        supported={
            "normalize_before": True,
            "normalize_embedding": True,
            "add_final_layer_norm": True,
            "add_bias_logits": False,
            "static_position_embeddings": False,
            "extra_pos_embeddings": 2,
        },
    ),
    # modeling_pegasus.py
    PEGASUS: _Family(
        positions=Positions.SINUSOIDAL,
        norm_first=True,
        final_norm=True,
        has_head_bias=True,
        scales_embeddings=False,
        supported={
            "normalize_before": True,
            "normalize_embedding": False,
            "add_final_layer_norm": True,
            "add_bias_logits": False,
            "static_position_embeddings": True,
        },
    ),
}


def read_network(config: Mapping[str, Any]) -> Seq2SeqNetwork:
    """The network that a config.json describes. Raises ModelError that names what is missing or not supported."""
    architecture = architecture_of(config) or MARIAN
    if config.get("tie_encoder_decoder"):
        raise ModelError("config.json says tie_encoder_decoder = true; only false is supported")
    if architecture in (T5, MT5):
        return read_t5(config, architecture)
    family = _FAMILIES[architecture]
    for name, value in family.supported.items():
        if config.get(name, value) != value:
            raise ModelError(f"config.json says {name} = {config[name]}; only {value} is supported")
    sizes = _sizes(config)
    activation = str(config["activation_function"])
    if (layers := max(sizes["encoder_layers"], sizes["decoder_layers"])) > MAX_LAYERS:
        raise ModelError(f"config.json asks for {layers:,} layers; at most {MAX_LAYERS:,} are supported")
    if activation not in ACTIVATIONS:
        raise ModelError(f"config.json says activation_function = {activation}; supported are {', '.join(ACTIVATIONS)}")
    width = sizes["d_model"]
    scales = config.get("scale_embedding", family.scales_embeddings)
    tied_head = bool(config.get("tie_word_embeddings", True))
    return Seq2SeqNetwork(
        width=width,
        encoder_heads=_heads(width, sizes["encoder_attention_heads"]),
        decoder_heads=_heads(width, sizes["decoder_attention_heads"]),
        encoder_layers=sizes["encoder_layers"],
        decoder_layers=sizes["decoder_layers"],
        encoder_inner=int(config.get("encoder_ffn_dim", 4 * width)),
        decoder_inner=int(config.get("decoder_ffn_dim", 4 * width)),
        activation=activation,
        max_positions=sizes["max_position_embeddings"],
        positions=family.positions,
        first_position=_first_position(config, family),
        scale=float(width**0.5) if scales else 1.0,
        shared_embeddings=_shares_embeddings(config, architecture, tied_head=tied_head),
        tied_head=tied_head,
        has_head_bias=family.has_head_bias,
        norm_first=family.norm_first,
        embedding_norm=family.embedding_norm,
        final_norm=family.final_norm,
    )


def _shares_embeddings(config: Mapping[str, Any], architecture: str, *, tied_head: bool) -> bool:
    """Whether encoder and decoder read one table of embeddings, once a checkpoint is loaded."""
    if architecture == MARIAN:
        return bool(config.get("share_encoder_decoder_embeddings", True))
    # These give each side a module of its own, and tie its weights only together with the head (`_tie_weights`).
    return tied_head or architecture not in (M2M100, BART, MBART)


def _sizes(config: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that every family has; `activation_function` is checked for, too."""
    names = ("d_model", "encoder_layers", "decoder_layers", "max_position_embeddings")
    try:
        sizes = {name: int(config[name]) for name in names}
        sizes |= {name: int(config[name]) for name in ("encoder_attention_heads", "decoder_attention_heads")}
        config["activation_function"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"config.json lacks {error}, or gives it a value that is not a size") from error
    return sizes


def _heads(width: int, number: int) -> AttentionHeads:
    if number < 1 or width % number:
        raise ModelError(f"config.json says d_model = {width}, which is not a multiple of its {number} heads")
    size = width // number
    return AttentionHeads(number, size, float(size**-0.5))


def _first_position(config: Mapping[str, Any], family: _Family) -> int:
    """fairseq numbers tokens from the id of padding + 1 on (`create_position_ids_from_input_ids`)."""
    if family.positions is not Positions.FAIRSEQ:
        return family.first_position
    pad_id = config.get("pad_token_id")
    if not isinstance(pad_id, int) or isinstance(pad_id, bool) or pad_id < 0:
        raise ModelError(f"config.json says pad_token_id = {pad_id}; positions are counted from this id on")
    return pad_id + 1
