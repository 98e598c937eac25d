"""
How many positions the rows of a sentence have in common, so that a row that continues another copies only the rest.

Beams branch again and again from the same few hypotheses, so a row that takes over another beam mostly has all but the
last positions of it already.

Shapes: B sentences · k beams · R rows, B x k.
"""

import numpy as np
from numpy.typing import NDArray

from worker.engine.search.logit_rules import Ids


class SharedBeginnings:
    """For each sentence slot, how many leading positions of its beams' caches are identical, so that a beam that takes
    over another's row copies only the rest."""

    def __init__(self) -> None:
        self._shared = np.zeros((0, 1, 1), np.int32)  # (B, k, k): positions that two rows have in common

    def allocate(self, sentences: int, beams: int) -> None:
        """Allocate `sentences` free slots of `beams` rows."""
        self._shared = np.zeros((sentences, beams, beams), np.int32)

    def clear(self, slots: slice) -> None:
        """Note that new sentences, without positions, begin in `slots`."""
        self._shared[slots] = 0

    def select(self, rows: Ids, positions: NDArray[np.int32]) -> NDArray[np.int32]:
        """Row i takes over the beam of row rows[i], which has positions[rows[i]] positions. Returns how many of these
        row i already holds (R,)."""
        k = self._shared.shape[1]
        if k == 1:
            return np.zeros(len(rows), np.int32)
        old = rows.reshape(-1, k)  # (B, k)
        slots = old[:, 0] // k  # (B,)
        continued = old - k * slots[:, None]  # (B, k), within the sentence
        here = np.arange(len(slots))
        owned: NDArray[np.int32] = self._shared[here[:, None], np.arange(k), continued]
        owned[slots != here] = 0  # rows of another sentence
        alike = continued[:, :, None] == continued[:, None, :]  # (B, k, k)
        shared = self._shared[slots[:, None, None], continued[:, :, None], continued[:, None, :]]
        self._shared[: len(slots)] = np.where(alike, positions[old][:, :, None], shared)
        return owned.reshape(-1)
