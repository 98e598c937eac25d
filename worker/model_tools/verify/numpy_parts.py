"""What the references in numpy share: types and activations, written after activations.py of transformers 4.57. They
share no code with worker/graphs, so an error there is not repeated here."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]


def _silu(x: Floats) -> Floats:
    y: Floats = x / (1 + np.exp(-x))
    return y


def _gelu(x: Floats) -> Floats:
    """x times the share of the standard normal distribution below x."""
    y: Floats = (0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float32])(x / math.sqrt(2)))).astype(np.float32)
    return y


def _gelu_by_tanh(x: Floats) -> Floats:
    y: Floats = 0.5 * x * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)))
    return y


def _quick_gelu(x: Floats) -> Floats:
    y: Floats = x / (1 + np.exp(np.float32(-1.702) * x))
    return y


def _relu(x: Floats) -> Floats:
    return np.maximum(x, 0)


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "silu": _silu,
    "swish": _silu,
    "gelu": _gelu,
    "gelu_python": _gelu,
    "gelu_new": _gelu_by_tanh,
    "gelu_fast": _gelu_by_tanh,
    "gelu_pytorch_tanh": _gelu_by_tanh,
    "quick_gelu": _quick_gelu,
    "relu": _relu,
    "tanh": np.tanh,
}
