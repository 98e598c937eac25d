"""
What a seq2seq network is made of: the one description from which all its graphs are built.

Knows: sizes, norms, positions. Does not know: config.json, the names of tensors, graphs.

Shapes: D width · N heads · H head size.
"""

import enum
from dataclasses import dataclass

_HEAD_MULTIPLE = 8  # GroupQueryAttention takes head sizes of a multiple of this
# Supported activations, with a lower bound of their values.
ACTIVATIONS = {"swish": -0.2785, "silu": -0.2785, "relu": 0.0, "gelu": -0.17, "gelu_new": -0.1701}


class Positions(enum.Enum):
    """How positions enter the network: as vectors added to the embeddings, or as a bias of attention scores."""

    SINUSOIDAL = enum.auto()  # angles by 10000^(2i / D) (MarianSinusoidalPositionalEmbedding)
    LEARNED = enum.auto()  # a table of each side (BartLearnedPositionalEmbedding)
    FAIRSEQ = enum.auto()  # angles by 10000^(i / (D / 2 - 1)) (M2M100SinusoidalPositionalEmbedding)
    RELATIVE = enum.auto()  # nothing is added to them; scores of attention get a bias by distance (T5Attention)


class Naming(enum.Enum):
    """How checkpoints name tensors (`tensor_names`)."""

    BART = enum.auto()
    T5 = enum.auto()


@dataclass(frozen=True, slots=True)
class RelativePositions:
    """The buckets of distances between tokens (`relative_bias`)."""

    buckets: int
    max_distance: int


@dataclass(frozen=True, slots=True)
class AttentionHeads:
    """The heads of the attention of one side."""

    number: int  # N
    size_in_checkpoint: int
    scale: float  # the factor of the products of queries and keys

    @property
    def size(self) -> int:
        """H: padded with zeros to a multiple of 8, which GroupQueryAttention requires."""
        return -(-self.size_in_checkpoint // _HEAD_MULTIPLE) * _HEAD_MULTIPLE

    @property
    def width(self) -> int:
        """N x H: D, unless heads are padded."""
        return self.number * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2SeqNetwork:
    """An encoder and a decoder of Transformer layers."""

    width: int  # D
    encoder_heads: AttentionHeads
    decoder_heads: AttentionHeads  # of self-attention and cross-attention
    encoder_layers: int
    decoder_layers: int  # L
    encoder_inner: int  # width between the two maps of a feed-forward part
    decoder_inner: int
    activation: str  # one of `ACTIVATIONS`
    max_positions: int
    positions: Positions
    first_position: int  # the row of the first token in the table of positions
    scale: float  # of the embeddings
    shared_embeddings: bool  # encoder and decoder share one table
    tied_head: bool  # the head is the decoder's embeddings
    has_head_bias: bool
    norm_first: bool  # a part of a layer reads its input normalized (pre-norm); else its sum with the input is
    embedding_norm: bool  # of the sum of embedding and position
    final_norm: bool  # behind the last layer of each side
    relative: RelativePositions | None = None
    rms_norm: bool = False  # norms divide by the root of the mean square, and subtract no mean
    epsilon: float = 1e-5  # of norms
    has_biases: bool = True  # of norms and linear maps
    is_gated: bool = False  # fc2(activation(gate(x)) * up(x)), not fc2(activation(fc1(x)))
    head_scale: float = 1.0  # of the hidden states that the head reads, folded into the decoder's last norm
    is_wide: bool = False  # in float16 the residual and the product fc2 stay in float32: they exceed 65,504
    naming: Naming = Naming.BART

    def __post_init__(self) -> None:
        assert (self.relative is not None) == (self.positions is Positions.RELATIVE)
        assert self.head_scale == 1 or self.final_norm, "the scale is folded into the last norm"

    @property
    def inner_maps(self) -> tuple[str, ...]:
        """The linear maps of a feed-forward part, by their roles."""
        return ("gate", "up", "fc2") if self.is_gated else ("fc1", "fc2")

    def heads(self, side: str) -> AttentionHeads:
        """The attention heads of `encoder` or `decoder`."""
        return self.encoder_heads if side == "encoder" else self.decoder_heads
