"""
What a seq2seq network is made of: the one description from which all its graphs are built.

Knows: sizes, norms, positions. Does not know: config.json, the names of tensors, graphs.

Shapes: D width · N heads · H head size.
"""

import enum
from dataclasses import dataclass

_HEAD_MULTIPLE = 8  # GroupQueryAttention takes head sizes of a multiple of this
# Supported activations, with a lower bound of their values.
ACTIVATIONS = {"swish": -0.2785, "silu": -0.2785, "relu": 0.0, "gelu": -0.17}


class Positions(enum.Enum):
    """Where the vectors that are added to the embeddings come from."""

    SINUSOIDAL = enum.auto()  # angles by 10000^(2i / D) (MarianSinusoidalPositionalEmbedding)
    LEARNED = enum.auto()  # a table of each side (BartLearnedPositionalEmbedding)
    FAIRSEQ = enum.auto()  # angles by 10000^(i / (D / 2 - 1)) (M2M100SinusoidalPositionalEmbedding)


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

    def heads(self, side: str) -> AttentionHeads:
        """Of `encoder` or `decoder`."""
        return self.encoder_heads if side == "encoder" else self.decoder_heads
