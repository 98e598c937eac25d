"""
A Marian checkpoint: the sizes of the network, and its tensors by their role.

Knows: config.json and the tensor names in Hugging Face checkpoints. Does not know: graphs.

Shapes: V vocabulary · D width · N outputs, K inputs of a linear map.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.graphs.checkpoint_weights import MAX_LAYERS, Weights

# Settings that older checkpoints spell out, with the supported values.
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "add_bias_logits": (False,),
    "static_position_embeddings": (True,),
    "extra_pos_embeddings": (0,),
}
_HEAD_MULTIPLE = 8  # GroupQueryAttention takes head sizes of a multiple of this
# Supported activations, with a lower bound of their values.
ACTIVATIONS = {"swish": -0.2785, "silu": -0.2785, "relu": 0.0, "gelu": -0.17}


@dataclass(frozen=True, slots=True)
class MarianSizes:
    """The sizes of a Marian network."""

    width: int  # D
    heads: int  # N, of encoder and decoder alike
    encoder_layers: int
    decoder_layers: int  # L
    activation: str
    max_positions: int
    scale: float  # of the embeddings
    shared_embeddings: bool  # encoder and decoder share one table
    tied_head: bool  # the head is the decoder's embeddings

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Self:
        """The sizes, from config.json. Raises ModelError that names what is missing or not supported."""
        for name, allowed in _SUPPORTED.items():
            if config.get(name, allowed[0]) not in allowed:
                raise ModelError(f"config.json says {name} = {config[name]}; only {allowed[0]} is supported")
        try:
            sizes = {
                name: int(config[name])
                for name in ("d_model", "encoder_layers", "decoder_layers", "max_position_embeddings")
            }
            heads = int(config["encoder_attention_heads"]), int(config["decoder_attention_heads"])
            activation = str(config["activation_function"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"config.json lacks {error}, or gives it a value that is not a size") from error
        if (layers := max(sizes["encoder_layers"], sizes["decoder_layers"])) > MAX_LAYERS:
            raise ModelError(f"config.json asks for {layers:,} layers; at most {MAX_LAYERS:,} are supported")
        if activation not in ACTIVATIONS:
            raise ModelError(
                f"config.json says activation_function = {activation}; supported are {', '.join(ACTIVATIONS)}"
            )
        width = sizes["d_model"]
        for each in heads:
            if each < 1 or width % each:
                raise ModelError(f"config.json says d_model = {width}, which is not a multiple of its {each} heads")
        if heads[0] != heads[1]:
            raise ModelError(
                f"config.json says {heads[0]} heads for the encoder and {heads[1]} for the decoder; only equal numbers "
                "are supported"
            )
        return cls(
            width=width,
            heads=heads[1],
            encoder_layers=sizes["encoder_layers"],
            decoder_layers=sizes["decoder_layers"],
            activation=activation,
            max_positions=sizes["max_position_embeddings"],
            scale=float(width**0.5) if config.get("scale_embedding") else 1.0,
            shared_embeddings=bool(config.get("share_encoder_decoder_embeddings", True)),
            tied_head=bool(config.get("tie_word_embeddings", True)),
        )

    @property
    def head_size(self) -> int:
        """H: padded with zeros to a multiple of 8, which GroupQueryAttention requires."""
        return -(-self.width // (self.heads * _HEAD_MULTIPLE)) * _HEAD_MULTIPLE

    @property
    def attention_width(self) -> int:
        """N x H: D, unless heads are padded."""
        return self.heads * self.head_size

    @property
    def attention_scale(self) -> float:
        """The factor of the products of queries and keys, by the head size without padding."""
        return float((self.width // self.heads) ** -0.5)


def tensor_names(sizes: MarianSizes) -> frozenset[str]:
    """The tensors that a checkpoint of these sizes may hold: tied tensors under each of their names, and the table of
    positions, which the graphs compute anew."""
    names = {"final_logits_bias", "lm_head.weight", "model.shared.weight"}
    for side, layers in (("encoder", sizes.encoder_layers), ("decoder", sizes.decoder_layers)):
        attentions = ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",)
        maps = [f"{block}.{part}_proj" for block in attentions for part in ("q", "k", "v", "out")]
        maps += [*(f"{block}_layer_norm" for block in attentions), "fc1", "fc2", "final_layer_norm"]
        names |= {f"model.{side}.embed_tokens.weight", f"model.{side}.embed_positions.weight"}
        names |= {
            f"model.{side}.layers.{layer}.{one}.{part}"
            for layer in range(layers)
            for one in maps
            for part in ("weight", "bias")
        }
    return frozenset(names)


class MarianWeights:
    """The tensors of a checkpoint, by their role."""

    def __init__(self, weights: Weights, sizes: MarianSizes, head_ids: Sequence[int] | None) -> None:
        self._weights = weights
        self._sizes = sizes
        self._head_ids = None if head_ids is None else np.asarray(head_ids)

    def layer(self, layer: str, *names: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weight (N, K) and bias (N,) of some linear maps of a layer, stacked."""
        weights = [self._padded(name, self._get(f"model.{layer}.{name}.weight")) for name in names]
        biases = [self._padded(name, self._get(f"model.{layer}.{name}.bias")) for name in names]
        return np.concatenate(weights), np.concatenate(biases)

    def one(self, name: str) -> NDArray[np.float32]:
        """A tensor of the network."""
        return self._get(f"model.{name}")

    def embeddings(self, side: str) -> NDArray[np.float32]:
        """The embeddings (V, D) of `encoder` or `decoder`. A file may have tied tensors under any of their names."""
        names = [f"model.{side}.embed_tokens.weight"]
        if self._sizes.shared_embeddings:
            names = ["model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]
        if self._sizes.tied_head and (self._sizes.shared_embeddings or side == "decoder"):
            names.append("lm_head.weight")
        return self._get(*names)

    def head(self) -> NDArray[np.float32]:
        """(V, D)."""
        return self._kept(self.embeddings("decoder") if self._sizes.tied_head else self._get("lm_head.weight"))

    @property
    def head_rows(self) -> str:
        """The name under which a graph stores the head: that of the embeddings where it is the same tensor."""
        if self._head_ids is not None or not self._sizes.tied_head:
            return "head.rows"
        return "embeddings" if self._sizes.shared_embeddings else "decoder.embeddings"

    def head_bias(self) -> NDArray[np.float32]:
        """(V,)."""
        bias = self._weights["final_logits_bias"] if "final_logits_bias" in self._weights else np.zeros(1)
        bias = np.asarray(bias, np.float32).reshape(-1)
        return self._kept(bias) if len(bias) > 1 else bias

    def positions(self) -> NDArray[np.float32]:
        """(positions, D): sines in the first half, cosines in the second (MarianSinusoidalPositionalEmbedding)."""
        width = self._sizes.width
        position = np.arange(self._sizes.max_positions)[:, None]
        angles = position / np.power(10000, 2 * (np.arange(width) // 2) / width)
        return np.concatenate((np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])), axis=1).astype(np.float32)

    def _padded(self, name: str, tensor: NDArray[np.float32]) -> NDArray[np.float32]:
        """Append zeros to each head of a projection: rows of the projections to queries, keys and values, columns of
        the output projection. They do not change any product."""
        sizes = self._sizes
        if sizes.attention_width == sizes.width or not name.endswith("_proj"):
            return tensor
        axis = 1 if name.endswith("out_proj") else 0
        if axis == tensor.ndim:  # the bias of out_proj
            return tensor
        shape = tensor.shape
        by_head = tensor.reshape(*shape[:axis], sizes.heads, -1, *shape[axis + 1 :])
        missing = [(0, 0)] * by_head.ndim
        missing[axis + 1] = (0, sizes.head_size - sizes.width // sizes.heads)
        return np.pad(by_head, missing).reshape(*shape[:axis], sizes.attention_width, *shape[axis + 1 :])

    def _kept(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return rows if self._head_ids is None else rows[self._head_ids]

    def _get(self, *names: str) -> NDArray[np.float32]:
        for name in names:
            if name in self._weights:
                return np.asarray(self._weights[name], np.float32)
        raise ModelError(f"the checkpoint lacks the tensor {' or '.join(names)}: its files do not belong together")
