"""
The inputs of one call of a native causal model: its tokens, and the rows that attention sees.

Matrix products see the tokens one after the other, attention sees them in rows (`worker.graphs.causal.graphs`).

Shapes: M tokens · B rows · S their length · P past length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

_MASKED = np.float32(-1e30)  # added to a score: the softmax then gives 0


@dataclass(frozen=True, slots=True)
class PackedRows:
    """The inputs of one call of the body."""

    ids: NDArray[np.int64]  # (M,)
    rows: NDArray[np.int64]  # (B, S): the index of each token among the M; beyond the end of a row, of any
    places: NDArray[np.int64]  # (M,): the index of each token among the B x S
    positions: NDArray[np.int64]  # (B, S)
    ends: NDArray[np.int32]  # (B,): the last column of each row, past included
    longest: NDArray[np.int32]  # (1,): the largest of them + 1
    bias: NDArray[np.float32] | None = None  # (1, 1, S, P + S)

    @property
    def num_tokens(self) -> int:
        """M."""
        return len(self.ids)

    @classmethod
    def from_start(cls, sequences: Sequence[Sequence[int]]) -> Self:
        """One row for each sequence, padded on the right."""
        lengths = np.array([len(ids) for ids in sequences])
        longest = int(lengths.max())
        columns = np.arange(longest)
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        is_token = columns < lengths[:, None]  # (B, S)
        return cls(
            ids=np.concatenate([np.asarray(ids, np.int64) for ids in sequences]),
            rows=np.where(is_token, starts[:, None] + columns, 0),
            places=np.flatnonzero(is_token),
            positions=np.broadcast_to(columns, is_token.shape).copy(),
            ends=(lengths - 1).astype(np.int32),
            longest=np.array([longest], np.int32),
        )

    @classmethod
    def after_past(cls, past: int, ids: Sequence[int]) -> Self:
        """One row, which continues a sequence of `past` tokens."""
        places = np.arange(len(ids))
        return cls(
            ids=np.asarray(ids, np.int64),
            rows=places[None],
            places=places,
            positions=(past + places)[None],
            ends=np.array([past + len(ids) - 1], np.int32),
            longest=np.array([past + len(ids)], np.int32),
        )

    @classmethod
    def one_each(cls, num_rows: int) -> Self:
        """Room for one token in each of `num_rows` rows of different lengths. The caller fills in `ids`, `positions`,
        `ends` and `longest`, in place."""
        places = np.arange(num_rows)
        return cls(
            ids=np.zeros(num_rows, np.int64),
            rows=places[:, None],
            places=places,
            positions=np.zeros((num_rows, 1), np.int64),
            ends=np.zeros(num_rows, np.int32),
            longest=np.zeros(1, np.int32),
        )

    @classmethod
    def sharing_past(cls, past: int, suffixes: Sequence[Sequence[int]]) -> Self:
        """One row with several suffixes of one sequence of `past` tokens; no suffix attends to another.

                   past   a  a  b  b  b
        a a        1 1 1  1
                   1 1 1  1  1
        b b b      1 1 1        1
                   1 1 1        1  1
                   1 1 1        1  1  1
        """
        lengths = [len(ids) for ids in suffixes]
        row = cls.after_past(past, [token for ids in suffixes for token in ids])
        owners = np.repeat(np.arange(len(lengths)), lengths)
        bias = np.zeros((1, 1, len(owners), past + len(owners)), np.float32)
        bias[0, 0, :, past:][owners[:, None] != owners] = _MASKED  # the kernel masks later tokens itself
        offsets = np.concatenate([np.arange(length) for length in lengths])
        return cls(row.ids, row.rows, row.places, (past + offsets)[None], row.ends, row.longest, bias)
