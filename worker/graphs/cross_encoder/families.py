"""
The families of cross-encoders: how a config.json describes the network, and the names of its tensors.

    bert          post-norm, learned positions, token types; pooler (tanh), then the classifier
    roberta       as bert, positions counted from behind the padding's id; dense layer (tanh), then the classifier
    xlm-roberta   as roberta
    modernbert    pre-norm, rotary positions with two bases, local and global attention, gated, no token types

Knows: the settings and tensor names of transformers 4.57 (modeling_bert.py, modeling_roberta.py,
modeling_xlm_roberta.py, modeling_modernbert.py). Does not know: graphs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.errors import ModelError
from worker.graphs.architectures import CROSS_ENCODERS, architecture_of
from worker.graphs.checkpoint_weights import MAX_LAYERS
from worker.graphs.cross_encoder.network import ACTIVATIONS, EncoderBlock, EncoderNetwork, Pooling

_LABELS = 2  # default of transformers where config.json has no id2label


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderTensorNames:
    """The names of linear maps and normalizations, without `.weight` and `.bias`; `{}` is the number of a block."""

    tokens: str  # these three are embeddings
    positions: str | None
    types: str | None
    embedding_norm: str
    qkv: tuple[str, ...]  # queries, keys and values, or one map for all three
    out: str
    attention_norm: str
    inner: str
    outer: str
    outer_norm: str
    final_norm: str | None
    head: str
    head_norm: str | None
    classifier: str
    unused: tuple[str, ...] = ()  # beginnings of the names of tensors that the network of the class does not have


@dataclass(frozen=True, slots=True)
class EncoderFamily:
    """A family: the reader of its config.json, and its tensors."""

    read: Callable[[Mapping[str, Any]], EncoderNetwork]
    names: EncoderTensorNames


def read_network(config: Mapping[str, Any]) -> EncoderNetwork:
    """The network, from config.json. Raises ModelError that names what is missing or not supported."""
    family = architecture_of(config)
    if family is None or family not in FAMILIES:
        raise ModelError(
            f"config.json is of the architecture {family or config.get('model_type')}; cross-encoders are built of "
            f"{', '.join(CROSS_ENCODERS)}"
        )
    _check_labels(config)
    for key in ("is_decoder", "add_cross_attention"):
        if config.get(key):
            raise ModelError(f"config.json has {key}, and a cross-encoder attends to the whole pair: set it to false")
    if config.get("pruned_heads"):
        raise ModelError("config.json has pruned_heads, which are not supported: take the unpruned checkpoint")
    network = FAMILIES[family].read(config)
    for key, name in (("activation", network.activation), ("head activation", network.head_activation)):
        if name not in ACTIVATIONS:
            raise ModelError(f"the {key} in config.json is {name!r}; supported are {', '.join(ACTIVATIONS)}")
    if network.width % network.heads:
        raise ModelError(f"config.json gives {network.heads} heads, which do not divide the width {network.width}")
    if network.is_rotary and network.head_size % 2:
        raise ModelError(f"config.json gives heads of {network.head_size}, and rotary positions need an even size")
    if len(network.blocks) > MAX_LAYERS:
        raise ModelError(f"config.json asks for {len(network.blocks):,} layers; at most {MAX_LAYERS:,} are supported")
    return network


def names_of(network: EncoderNetwork) -> EncoderTensorNames:
    """The tensor names of its family."""
    return FAMILIES[network.family].names


def tensor_names(network: EncoderNetwork) -> set[str]:
    """The tensors that the network reads."""
    return set(_tensor_names(network, names_of(network)))


def _tensor_names(network: EncoderNetwork, names: EncoderTensorNames) -> Iterator[str]:
    for table in (names.tokens, names.positions, names.types):
        if table is not None:
            yield f"{table}.weight"

    def both(name: str, has_bias: bool) -> Iterator[str]:
        yield f"{name}.weight"
        if has_bias:
            yield f"{name}.bias"

    yield from both(names.embedding_norm, network.norm_bias)
    for number, block in enumerate(network.blocks):
        for name in (*names.qkv, names.out):
            yield from both(name.format(number), network.attention_bias)
        for name in (names.inner, names.outer):
            yield from both(name.format(number), network.inner_bias)
        if block.has_input_norm or not network.is_pre_norm:
            yield from both(names.attention_norm.format(number), network.norm_bias)
        yield from both(names.outer_norm.format(number), network.norm_bias)
    if names.final_norm is not None:
        yield from both(names.final_norm, network.norm_bias)
    yield from both(names.head, network.head_bias)
    if names.head_norm is not None:
        yield from both(names.head_norm, network.norm_bias)
    yield from both(names.classifier, True)


def _check_labels(config: Mapping[str, Any]) -> None:
    """Raise ModelError for a classifier of several classes: no one of them is the relevance."""
    labels = config.get("id2label")
    count = len(labels) if isinstance(labels, Mapping) else config.get("num_labels", _LABELS)
    if count != 1:
        named = f" ({', '.join(map(str, labels.values()))})" if isinstance(labels, Mapping) else ""
        raise ModelError(
            f"config.json describes a classifier of {count} classes{named}, and a cross-encoder that ranks has one "
            "output, the relevance: take a checkpoint with num_labels = 1"
        )


def _read_bert(config: Mapping[str, Any]) -> EncoderNetwork:
    return _read_post_norm(config, first_position=0)


def _read_roberta(config: Mapping[str, Any]) -> EncoderNetwork:
    return _read_post_norm(config, first_position=_size(config, "pad_token_id", 1, least=0) + 1)


def _read_post_norm(config: Mapping[str, Any], *, first_position: int) -> EncoderNetwork:
    kind = config.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise ModelError(
            f"config.json has position_embedding_type {kind!r}; absolute positions alone are supported: take another "
            "checkpoint"
        )
    layers = _size(config, "num_hidden_layers")
    return EncoderNetwork(
        family=str(architecture_of(config)),
        width=_size(config, "hidden_size"),
        heads=_size(config, "num_attention_heads"),
        inner_width=_size(config, "intermediate_size"),
        vocab_size=_size(config, "vocab_size"),
        max_positions=_size(config, "max_position_embeddings", 512) - first_position,
        first_position=first_position,
        token_types=_size(config, "type_vocab_size", 2),
        epsilon=_number(config, "layer_norm_eps", 1e-12),
        blocks=(EncoderBlock(theta=None, window=None, has_input_norm=False),) * layers,
        is_pre_norm=False,
        is_gated=False,
        activation=str(config.get("hidden_act", "gelu")),
        attention_bias=True,
        inner_bias=True,
        norm_bias=True,
        pooling=Pooling.CLS,
        head_activation="tanh",
        head_bias=True,
        head_norm=False,
    )


def _read_modernbert(config: Mapping[str, Any]) -> EncoderNetwork:
    for key in ("rope_scaling", "rope_parameters", "layer_types"):
        if config.get(key) is not None:
            raise ModelError(
                f"config.json has {key}, which is not supported for ModernBERT: take a checkpoint that transformers 4 "
                "has saved, with global_rope_theta and local_rope_theta"
            )
    theta = _number(config, "global_rope_theta", 160_000.0)
    local_theta = theta if config.get("local_rope_theta", 0) is None else _number(config, "local_rope_theta", 10_000.0)
    every, window = _size(config, "global_attn_every_n_layers", 3), _size(config, "local_attention", 128) // 2
    pooling = config.get("classifier_pooling", Pooling.CLS)
    if pooling not in set(Pooling):
        raise ModelError(f"config.json has classifier_pooling {pooling!r}; supported are {', '.join(Pooling)}")
    return EncoderNetwork(
        family=str(architecture_of(config)),
        width=_size(config, "hidden_size"),
        heads=_size(config, "num_attention_heads"),
        inner_width=_size(config, "intermediate_size"),
        vocab_size=_size(config, "vocab_size"),
        max_positions=_size(config, "max_position_embeddings", 8192),
        first_position=None,
        token_types=0,
        epsilon=_number(config, "norm_eps", 1e-5),
        blocks=tuple(
            EncoderBlock(
                theta=local_theta if number % every else theta,
                window=window if number % every else None,
                has_input_norm=number > 0,  # the first reads the embeddings, which are normalized
            )
            for number in range(_size(config, "num_hidden_layers"))
        ),
        is_pre_norm=True,
        is_gated=True,
        activation=str(config.get("hidden_activation", "gelu")),
        attention_bias=_flag(config, "attention_bias"),
        inner_bias=_flag(config, "mlp_bias"),
        norm_bias=_flag(config, "norm_bias"),
        pooling=Pooling(pooling),
        head_activation=str(config.get("classifier_activation", "gelu")),
        head_bias=_flag(config, "classifier_bias"),
        head_norm=True,
    )


def _post_norm_names(body: str, *, head: str, classifier: str, unused: tuple[str, ...] = ()) -> EncoderTensorNames:
    layer = f"{body}.encoder.layer.{{}}"
    return EncoderTensorNames(
        tokens=f"{body}.embeddings.word_embeddings",
        positions=f"{body}.embeddings.position_embeddings",
        types=f"{body}.embeddings.token_type_embeddings",
        embedding_norm=f"{body}.embeddings.LayerNorm",
        qkv=tuple(f"{layer}.attention.self.{part}" for part in ("query", "key", "value")),
        out=f"{layer}.attention.output.dense",
        attention_norm=f"{layer}.attention.output.LayerNorm",
        inner=f"{layer}.intermediate.dense",
        outer=f"{layer}.output.dense",
        outer_norm=f"{layer}.output.LayerNorm",
        final_norm=None,
        head=head,
        head_norm=None,
        classifier=classifier,
        unused=unused,
    )


# Checkpoints of RoBERTa may keep the pooler of their pretraining, which its classifier does not use.
_ROBERTA = EncoderFamily(
    _read_roberta,
    _post_norm_names("roberta", head="classifier.dense", classifier="classifier.out_proj", unused=("roberta.pooler.",)),
)

FAMILIES: Mapping[str, EncoderFamily] = {
    "bert": EncoderFamily(_read_bert, _post_norm_names("bert", head="bert.pooler.dense", classifier="classifier")),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "modernbert": EncoderFamily(
        _read_modernbert,
        EncoderTensorNames(
            tokens="model.embeddings.tok_embeddings",
            positions=None,
            types=None,
            embedding_norm="model.embeddings.norm",
            qkv=("model.layers.{}.attn.Wqkv",),
            out="model.layers.{}.attn.Wo",
            attention_norm="model.layers.{}.attn_norm",
            inner="model.layers.{}.mlp.Wi",
            outer="model.layers.{}.mlp.Wo",
            outer_norm="model.layers.{}.mlp_norm",
            final_norm="model.final_norm",
            head="head.dense",
            head_norm="head.norm",
            classifier="classifier",
        ),
    ),
}


def _size(config: Mapping[str, Any], key: str, default: int | None = None, *, least: int = 1) -> int:
    value = config.get(key, default)
    if type(value) is not int or value < least:
        raise ModelError(f"config.json lacks {key}, or gives it a value that is not a size ({value!r})")
    return value


def _flag(config: Mapping[str, Any], key: str) -> bool:
    value = config.get(key, False)
    if not isinstance(value, bool):
        raise ModelError(f"config.json gives {key} the value {value!r}; it is true or false")
    return value


def _number(config: Mapping[str, Any], key: str, default: float) -> float:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ModelError(f"config.json gives {key} a value that is not a positive number ({value!r})")
    return float(value)
