"""
The seq2seq families that native graphs are built for: how their config.json describes a network.

Knows: the keys of config.json, and what each class of transformers 4.57 computes. Does not know: tensors, graphs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jobs.errors import ModelError
from worker.graphs.architectures import BART, M2M100, MARIAN, MBART, MT5, PEGASUS, T5, architecture_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The properties of a family's class in transformers that no setting of config.json changes."""

    positions: Positions
    first_position: int = 0
    norm_first: bool
    embedding_norm: bool = False
    final_norm: bool
    has_head_bias: bool = True  # final_logits_bias
    scales_embeddings: bool = False  # where config.json does not say
    num_spelled: int = 6  # of the settings that older checkpoints spell out

    @property
    def spelled_out(self) -> dict[str, Any]:
        """Settings that older checkpoints of the family spell out, with the value that the class computes."""
        settings = {
            "normalize_before": self.norm_first,
            "normalize_embedding": self.embedding_norm,
            "add_final_layer_norm": self.final_norm,
            "add_bias_logits": False,
            "static_position_embeddings": self.positions is Positions.SINUSOIDAL,
            "extra_pos_embeddings": self.first_position,
        }
        return dict(islice(settings.items(), self.num_spelled))


_FAMILIES = {
    # modeling_marian.py
    MARIAN: _Family(positions=Positions.SINUSOIDAL, norm_first=False, final_norm=False),
    # modeling_m2m_100.py, of NLLB-200 too
    M2M100: _Family(
        positions=Positions.FAIRSEQ,
        norm_first=True,
        final_norm=True,
        has_head_bias=False,
        scales_embeddings=True,
        num_spelled=1,
    ),
    # modeling_bart.py
    BART: _Family(
        positions=Positions.LEARNED, first_position=2, norm_first=False, embedding_norm=True, final_norm=False
    ),
    # modeling_mbart.py, of mBART-50
    MBART: _Family(
        positions=Positions.LEARNED, first_position=2, norm_first=True, embedding_norm=True, final_norm=True
    ),
    # modeling_pegasus.py
    PEGASUS: _Family(
        positions=Positions.SINUSOIDAL,
        norm_first=True,
        final_norm=True,
        num_spelled=5,
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
    for name, value in family.spelled_out.items():
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


def read_t5(content: Mapping[str, Any], architecture: str) -> Seq2SeqNetwork:
    """As `read_network`, of T5 and its kin: T5 v1.1, Flan-T5, mT5, MADLAD-400."""
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
