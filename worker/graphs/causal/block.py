"""
What a block of a causal network computes, as data: norms and where they stand, activation, biases, scales, caps.

Knows: the choices by which the families differ. Does not know: which family makes which choice, tensors, graphs.

    sequential   y = x + after(attention(before(x)));  x = y + after(feed_forward(before(y)))
    parallel     x = x + attention(before(x)) + feed_forward(before(x))
    of sums      y = norm(x + attention(x));           x = norm(y + feed_forward(y))
"""

import enum
from dataclasses import dataclass
from typing import Any


class Norm(enum.StrEnum):
    """The kinds of normalization."""

    RMS = "rms"  # Zhang and Sennrich 2019
    LAYER = "layer"  # Ba, Kiros and Hinton 2016


class HeadNorm(enum.StrEnum):
    """The elements over which queries and keys are normalized, before the rotation, by the norm of the block."""

    HEAD = "head"  # the elements of a head, all heads with the same weights
    EACH_HEAD = "each head"  # the same, each head with weights of its own
    PROJECTION = "projection"  # the elements of all heads together; by root mean square alone


@dataclass(frozen=True, slots=True)
class ActivationOperator:
    """An activation as an ONNX operator."""

    operator: str
    domain: str  # empty: ONNX's own
    attributes: tuple[tuple[str, Any], ...]
    lowest: float  # no value is lower


_CONTRIB = "com.microsoft"
_SILU = ActivationOperator("QuickGelu", _CONTRIB, (("alpha", 1.0),), -0.2785)
_GELU = ActivationOperator("Gelu", "", (), -0.17)
_GELU_BY_TANH = ActivationOperator("Gelu", "", (("approximate", "tanh"),), -0.1701)
# By their names in config.json; several are names of the same function (transformers 4.57 activations.py).
ACTIVATIONS = {
    "silu": _SILU,
    "swish": _SILU,
    "gelu": _GELU,
    "gelu_python": _GELU,
    "gelu_new": _GELU_BY_TANH,
    "gelu_fast": _GELU_BY_TANH,
    "gelu_pytorch_tanh": _GELU_BY_TANH,
    "quick_gelu": ActivationOperator("QuickGelu", _CONTRIB, (("alpha", 1.702),), -0.1637),
    "relu": ActivationOperator("Relu", "", (), 0.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalBlock:
    """The choices of a family, the same in all layers."""

    norm: Norm = Norm.RMS
    epsilon: float  # of all norms
    norm_weight: bool = True
    norm_bias: bool = False
    norm_adds_one: bool = False  # the factor is 1 + weight
    norms_before: bool = True  # attention and feed-forward get normalized inputs
    norms_after: bool = False  # their outputs are normalized before they are added to the residual
    norms_of_sums: bool = False  # the residual is normalized behind each addition
    last_norm: bool = True  # there is a norm behind the last layer
    is_parallel: bool = False
    shares_norm: bool = False  # a parallel block has one norm for both parts
    head_norm: HeadNorm | None = None
    head_norm_bias: bool = False
    activation: str = "silu"  # of `ACTIVATIONS`
    is_gated: bool = True  # down(activation(gate(x)) * up(x)), not down(activation(up(x)))
    qkv_bias: bool = False
    out_bias: bool = False
    inner_bias: bool = False
    clip_qkv: float | None = None  # queries, keys and values are clipped to this absolute value
    attention_scale: float | None = None  # factor of the scores; None: 1 / sqrt(H)
    attention_cap: float | None = None  # scores become cap * tanh(score / cap)
    residual_scale: float = 1.0  # factor of the output of attention or feed-forward, before the residual is added
    embedding_scale: float = 1.0
    embedding_norm: bool = False  # embeddings are normalized
    logit_scale: float = 1.0
    logit_cap: float | None = None
    head_bias: bool = False

    def __post_init__(self) -> None:
        assert self.activation in ACTIVATIONS, self.activation
        assert self.logit_scale == 1 or self.last_norm, "the scale is folded into the last norm"
        assert not self.head_norm_bias or self.head_norm is HeadNorm.HEAD, "no other norm of heads has a bias"
        if self.norm is Norm.LAYER and self.head_norm is not None:
            assert self.head_norm is not HeadNorm.PROJECTION, "the mean is that of a head"
            assert self.clip_qkv is None, "the mean may be taken off the weights"
        assert self.residual_scale == 1 or not self.norms_after, "the scale is folded into a product before the norm"
