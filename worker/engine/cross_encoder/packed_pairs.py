"""
The inputs of one call of a cross-encoder: the tokens of its pairs, and the rows that attention sees.

Matrix products see the tokens one after the other, attention sees them in rows (`worker.graphs.cross_encoder.graph`).

Shapes: M tokens · B pairs · S the longest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from worker.engine.cross_encoder.protocol import PairIds


@dataclass(frozen=True, slots=True)
class PackedPairs:
    """The fields are the inputs of the graph, by their names."""

    ids: NDArray[np.int64]  # (M,)
    types: NDArray[np.int64]  # (M,)
    positions: NDArray[np.int64]  # (M,): from 0 in each pair
    rows: NDArray[np.int64]  # (B, S): the index of each token among the M; beyond the end of a row, of any
    places: NDArray[np.int64]  # (M,): the index of each token among the B x S
    lengths: NDArray[np.int32]  # (B,)
    firsts: NDArray[np.int64]  # (B,): the first token of each pair

    @classmethod
    def of(cls, pairs: Sequence[PairIds]) -> Self:
        """One row for each pair, padded on the right."""
        lengths = np.array([len(pair.ids) for pair in pairs])
        firsts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        columns = np.arange(int(lengths.max()))
        is_token = columns < lengths[:, None]  # (B, S)
        places = np.flatnonzero(is_token)
        return cls(
            ids=np.concatenate([np.asarray(pair.ids, np.int64) for pair in pairs]),
            types=np.concatenate([np.asarray(pair.types, np.int64) for pair in pairs]),
            positions=places % len(columns),
            rows=np.where(is_token, firsts[:, None] + columns, 0),
            places=places,
            lengths=lengths.astype(np.int32),
            firsts=firsts,
        )
