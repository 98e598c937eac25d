"""Batches of segments, padded to the longest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.seq2seq.batches import make_batches

SEGMENTS = st.lists(st.lists(st.integers(2, 99), min_size=1, max_size=12), min_size=1, max_size=30)


@given(SEGMENTS, st.integers(1, 9))
def test_batching_is_a_permutation(segments: list[list[int]], max_rows: int) -> None:
    batches = make_batches(segments, max_rows=max_rows, pad_id=0)
    rows = {
        index: ids[: int(mask.sum())].tolist()
        for batch in batches
        for index, ids, mask in zip(batch.order, batch.input_ids, batch.attention_mask, strict=True)
    }

    assert rows == dict(enumerate(segments))
    assert all(len(batch.order) == max_rows for batch in batches[:-1])


@given(SEGMENTS, st.integers(1, 9))
def test_no_batch_is_longer_than_the_one_before(segments: list[list[int]], max_rows: int) -> None:
    lengths = [
        length
        for batch in make_batches(segments, max_rows=max_rows, pad_id=0)
        for length in batch.attention_mask.sum(axis=1).tolist()
    ]

    assert lengths == sorted(map(len, segments), reverse=True)


@given(SEGMENTS, st.integers(1, 9))
def test_all_positions_without_a_token_are_padding(segments: list[list[int]], max_rows: int) -> None:
    for batch in make_batches(segments, max_rows=max_rows, pad_id=0):
        assert ((batch.input_ids == 0) == (batch.attention_mask == 0)).all()
        assert (np.diff(batch.attention_mask, axis=1) <= 0).all(), "padding is on the right"
        assert batch.input_ids.dtype == batch.attention_mask.dtype == np.int64


def test_equal_lengths_keep_their_order() -> None:
    (batch,) = make_batches([[5], [6, 7], [8], [9]], max_rows=4, pad_id=0)

    assert batch.order == (1, 0, 2, 3)


def test_the_padding_ratio_is_the_share_of_padding() -> None:
    (batch,) = make_batches([[5, 6, 7, 8], [9, 9]], max_rows=4, pad_id=0)

    assert batch.num_tokens == 6
    assert batch.padding_ratio == pytest.approx(2 / 8)


def test_no_segments_give_no_batch() -> None:
    assert make_batches([], max_rows=4, pad_id=0) == []
