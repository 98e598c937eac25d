"""
ALiBi: a bias of attention scores that falls linearly with the distance of the key; each head has its own slope (Press
et al. 2021).

The softmax of a row does not change if a constant is added to it, so slope x position of the key has the same effect as
slope x (position of the key - position of the query), and needs no table by pairs.

Slopes: transformers 4.57 build_alibi_tensor in modeling_bloom.py and modeling_falcon.py.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Alibi:
    """How a family computes the biases."""

    is_scaled: bool  # the bias is multiplied by the scale of the scores, too
    rounds: bool  # slopes, positions and their products are rounded to bfloat16

    def biases(self, heads: int, num_positions: int) -> Floats:
        """The bias of a key, by its position and head: (num_positions, heads)."""
        rounded = _to_bfloat16 if self.rounds else _as_they_are
        slopes, positions = rounded(_slopes(heads)), rounded(np.arange(num_positions, dtype=np.float32))
        return rounded(positions[:, None] * slopes)


def _slopes(heads: int) -> Floats:
    """The slope of each head. For N a power of two: 2^(-8/N), 2^(-16/N), … 2^-8. Else the slopes for the next lower
    power of two, followed by every second slope for the next higher one."""
    power = 1 << int(math.log2(heads))
    base = np.float32(2.0 ** -(2.0 ** -(math.log2(power) - 3)))
    slopes = base ** np.arange(1, 1 + power, dtype=np.float32)
    if power < heads:
        extra = np.float32(2.0 ** -(2.0 ** -(math.log2(2 * power) - 3)))
        count = min(power, heads - power)
        slopes = np.concatenate([slopes, extra ** np.arange(1, 1 + 2 * count, 2, dtype=np.float32)])
    return slopes.astype(np.float32)


def _as_they_are(values: Floats) -> Floats:
    return values


def _to_bfloat16(values: Floats) -> Floats:
    """Rounded to the nearest bfloat16, half to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.astype(np.uint32).view(np.float32)
