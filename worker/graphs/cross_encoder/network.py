"""
The description of a cross-encoder as data: the sizes and parts of its blocks, whatever its family.

Knows: sizes, and which of the known parts a network has. Does not know: config.json, names of tensors, graphs.
"""

import enum
from dataclasses import dataclass


class Pooling(enum.StrEnum):
    """The input of the classifier."""

    CLS = "cls"  # the hidden state of the first token
    MEAN = "mean"  # the mean of all hidden states


# Activations by their names in transformers (activations.py, ACT2FN) -> the ONNX operator, its domain and attributes,
# and a lower bound of its values, None if there is none.
ACTIVATIONS: dict[str, tuple[str, str, dict[str, float | str], float | None]] = {
    "gelu": ("Gelu", "", {}, -0.17),
    "gelu_new": ("Gelu", "", {"approximate": "tanh"}, -0.171),
    "gelu_pytorch_tanh": ("Gelu", "", {"approximate": "tanh"}, -0.171),
    "relu": ("Relu", "", {}, 0.0),
    "silu": ("QuickGelu", "com.microsoft", {"alpha": 1.0}, -0.279),
    "swish": ("QuickGelu", "com.microsoft", {"alpha": 1.0}, -0.279),
    "tanh": ("Tanh", "", {}, -1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderBlock:
    """A layer: attention over the whole sequence or a part of it, then a feed-forward network."""

    theta: float | None  # base of the rotary positions (Su et al. 2021); None: positions are learned
    window: int | None  # a token attends to tokens at most this far away; None: to all
    has_input_norm: bool  # pre-norm: whether attention reads a normalized input


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderNetwork:
    """A Transformer encoder with a classifier of one output."""

    family: str  # model_type in config.json
    width: int  # D
    heads: int  # N
    inner_width: int  # F
    vocab_size: int  # V: rows of the embeddings; a tokenizer may use fewer
    max_positions: int  # the tokens of the longest sequence
    first_position: int | None  # learned positions: the row of the table for the first token; None: they are rotary
    token_types: int  # of embeddings that tell query from document; 0: there are none
    epsilon: float  # of all normalizations
    blocks: tuple[EncoderBlock, ...]
    is_pre_norm: bool  # each part reads a normalized input; else its sum with the input is normalized
    is_gated: bool  # GLU (Shazeer 2020): the activation of one half, times the other half
    activation: str  # one of ACTIVATIONS, as is `head_activation`
    attention_bias: bool
    inner_bias: bool
    norm_bias: bool
    pooling: Pooling
    head_activation: str
    head_bias: bool  # of the dense layer before the classifier
    head_norm: bool  # whether the head normalizes before the classifier

    @property
    def head_size(self) -> int:
        """H: the elements of a head."""
        return self.width // self.heads

    @property
    def is_rotary(self) -> bool:
        return self.first_position is None

    @property
    def needs_first_alone(self) -> bool:
        """Whether only the first token's state of the last block is read."""
        return self.pooling is Pooling.CLS
