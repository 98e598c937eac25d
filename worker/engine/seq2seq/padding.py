"""Which segments go through the model together. Shapes: B rows · S source length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Source segments padded to one length, longest first."""

    input_ids: NDArray[np.int64]  # (B, S)
    attention_mask: NDArray[np.int64]  # (B, S): 1 token, 0 padding
    order: tuple[int, ...]  # (B,): where each row stood in the caller's list

    @property
    def num_tokens(self) -> int:
        """Without padding."""
        return int(self.attention_mask.sum())

    @property
    def padding_ratio(self) -> float:
        """How much of the batch is padding."""
        return 1.0 - self.num_tokens / self.attention_mask.size


def make_batches(segments: Sequence[Sequence[int]], *, max_rows: int, pad_id: int) -> list[PaddedBatch]:
    """Every segment once, longest first, so that rows of a batch are about equally long.

    Longest first also means that the buffers of the first batch are large enough for all others.
    """
    order = sorted(range(len(segments)), key=lambda index: -len(segments[index]))
    return [pad(segments, order[start : start + max_rows], pad_id) for start in range(0, len(order), max_rows)]


def pad(segments: Sequence[Sequence[int]], order: Sequence[int], pad_id: int) -> PaddedBatch:
    """The segments at `order`, one a row, filled up with `pad_id`."""
    length = max(len(segments[index]) for index in order)
    input_ids = np.full((len(order), length), pad_id, np.int64)
    attention_mask = np.zeros((len(order), length), np.int64)
    for row, index in enumerate(order):
        input_ids[row, : len(segments[index])] = segments[index]
        attention_mask[row, : len(segments[index])] = 1
    return PaddedBatch(input_ids, attention_mask, tuple(order))
