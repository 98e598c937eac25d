"""Padded batches of segments. Shapes: B rows · S source length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Source segments padded to one length, longest first."""

    input_ids: NDArray[np.int64]  # (B, S)
    attention_mask: NDArray[np.int64]  # (B, S): 1 token, 0 padding
    order: tuple[int, ...]  # (B,): the index of each row among the segments

    @property
    def num_tokens(self) -> int:
        """The number of tokens, padding excluded."""
        return int(self.attention_mask.sum())

    @property
    def padding_ratio(self) -> float:
        """The share of the batch that is padding."""
        return 1.0 - self.num_tokens / self.attention_mask.size


def make_batches(segments: Sequence[Sequence[int]], *, max_rows: int, pad_id: int) -> list[PaddedBatch]:
    """Every segment once, longest first, so that the rows of a batch have about the same length, and the buffers of the
    first batch are large enough for the others."""
    order = sorted(range(len(segments)), key=lambda index: -len(segments[index]))
    return [pad(segments, order[start : start + max_rows], pad_id) for start in range(0, len(order), max_rows)]


def pad(segments: Sequence[Sequence[int]], order: Sequence[int], pad_id: int) -> PaddedBatch:
    """The segments with the indices `order`, one per row, padded on the right with `pad_id`."""
    length = max(len(segments[index]) for index in order)
    input_ids = np.full((len(order), length), pad_id, np.int64)
    attention_mask = np.zeros((len(order), length), np.int64)
    for row, index in enumerate(order):
        input_ids[row, : len(segments[index])] = segments[index]
        attention_mask[row, : len(segments[index])] = 1
    return PaddedBatch(input_ids, attention_mask, tuple(order))
