"""Keys and values that a GPU's kernel may read beyond a row's tokens are zeros, whatever was in the memory before."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engine.causal.native.kv_cache import SequenceCache
from worker.engine.causal.native.slot_memory import SlotMemory, SlotShape

SHAPE = SlotShape(num_layers=2, kv_heads=1, head_size=4, dtype=np.dtype(np.float16))


def sequence_of_nan(positions: int) -> SequenceCache:
    cache = SequenceCache(2, 1, 4, np.dtype(np.float16), is_cleared=True)
    cache.begin(positions)
    cache.positions(0, positions).fill(np.nan)
    return cache


def slots_of_nan(rows: int, capacity: int) -> SlotMemory:
    slots = SlotMemory(SHAPE, is_cleared=True)
    slots.allocate(rows, capacity)
    slots._past.fill(np.nan)
    return slots


def row(slots: SlotMemory, number: int) -> NDArray[Any]:
    return slots._past[:, number]


def test_a_sequence_begins_in_zeros() -> None:
    cache = sequence_of_nan(300)

    cache.begin(200)

    assert not cache.positions(0, 256).any()


def test_new_slots_and_rows_that_begin_anew_hold_zeros() -> None:
    slots = slots_of_nan(3, 8)

    slots.begin_rows(1, 1)

    assert not row(slots, 1).any()
    assert np.isnan(row(slots, 0)).all()
    slots.allocate(2, 8)
    assert not slots._past.any()


def test_a_row_that_takes_a_prefix_or_is_moved_keeps_nothing_of_the_row_before() -> None:
    slots = slots_of_nan(3, 8)
    cache = sequence_of_nan(5)
    cache.positions(0, 5).fill(1)

    slots.take(cache, 0, 5, 0, 0)
    slots.move([(2, 0, 5)])

    for number in (0, 2):
        assert (row(slots, number)[:, :, :5] == 1).all()
        assert not row(slots, number)[:, :, 5:].any()


def test_rows_that_get_more_room_hold_zeros_behind_their_tokens() -> None:
    slots = slots_of_nan(2, 8)
    row(slots, 0).fill(1)

    slots.grow(16, 1, 8)

    assert (row(slots, 0)[:, :, :8] == 1).all()
    assert not row(slots, 0)[:, :, 8:].any()
    assert not row(slots, 1).any()
