"""
Pasts of different lengths in one array, padded on the left.

Shapes: B rows · P length of the longest past · K key/value heads · H head size.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.exported.broadcast_past import Past


def padded_pasts(pasts: Sequence[Past], lengths: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Join the pasts of several rows, arrays (1, K, S, H) for the key and the value of each layer, into arrays (B, K,
    P, H). The first lengths[i] positions of row i count: they move to the end, with zeros before them."""
    longest = int(lengths.max())
    joined = []
    for number, first in enumerate(pasts[0]):
        both = np.zeros((len(pasts), first.shape[1], longest, first.shape[3]), first.dtype)
        for row, (past, length) in enumerate(zip(pasts, lengths.tolist(), strict=True)):
            both[row, :, longest - length :] = past[number][0, :, :length]
        joined.append(both)
    return joined
