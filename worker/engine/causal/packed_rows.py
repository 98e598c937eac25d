"""
The tokens of one call of a causal model, and where each stands.

Products see tokens one behind the other, attention sees rows (`worker.graphs.causal`).

Shapes: M tokens · B rows · S their length · P past length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Ids = Sequence[int]
_HIDDEN = np.float32(-1e30)  # added to a score: nothing is left of it


@dataclass(frozen=True, slots=True)
class PackedRows:
    """What is fed for some tokens."""

    ids: NDArray[np.int64]  # (M,)
    rows: NDArray[np.int64]  # (B, S): which token stands where; behind the end of a row any
    places: NDArray[np.int64]  # (M,): of B x S
    positions: NDArray[np.int64]  # (B, S)
    ends: NDArray[np.int32]  # (B,): last place of each row, counting the past
    longest: NDArray[np.int32]  # (1,): the greatest of them + 1
    bias: NDArray[np.float32] | None = None  # (1, 1, S, P + S)

    @property
    def num_tokens(self) -> int:
        """M."""
        return len(self.ids)

    @classmethod
    def fresh(cls, sequences: Sequence[Ids]) -> Self:
        """A row each, filled up behind their ends."""
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
    def behind(cls, past: int, ids: Ids) -> Self:
        """One row that goes on where a sequence of `past` tokens stopped."""
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
    def shared(cls, past: int, continuations: Sequence[Ids]) -> Self:
        """One row of several continuations of a sequence of `past` tokens. None sees another.

                   past   a  a  b  b  b
        a a        1 1 1  1
                   1 1 1  1  1
        b b b      1 1 1        1
                   1 1 1        1  1
                   1 1 1        1  1  1
        """
        lengths = [len(ids) for ids in continuations]
        row = cls.behind(past, [token for ids in continuations for token in ids])
        owners = np.repeat(np.arange(len(lengths)), lengths)
        bias = np.zeros((1, 1, len(owners), past + len(owners)), np.float32)
        bias[0, 0, :, past:][owners[:, None] != owners] = _HIDDEN  # what comes later the kernel hides itself
        offsets = np.concatenate([np.arange(length) for length in lengths])
        return cls(row.ids, row.rows, row.places, (past + offsets)[None], row.ends, row.longest, bias)
