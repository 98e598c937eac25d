"""
Keys and values in the memory of a device, and the graphs that move them there.

Nothing here passes through the host but row numbers. The device may be the CPU: then the same code runs on memory of
the process, and that is how it is tested.

Shapes: R rows · B sentences · S source length · L layers · N heads · C positions · H head size.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class SlotShape:
    """The keys and values of one model."""

    num_layers: int  # L
    num_heads: int  # N
    head_size: int  # H
    dtype: np.dtype[Any]
