"""The memory of keys and values: its capacity follows the longest row, and what is cached moves with it."""

import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.runtime.host_arrays import GrowingBuffer
from worker.engine.seq2seq.native.kv_memory import KVMemory

FLOAT = np.dtype(np.float32)


def memory(step: int = 4, slack: float = 1.5) -> KVMemory:
    return KVMemory((4, 2, 3), FLOAT, step=step, slack=slack)


@given(
    st.integers(1, 5),
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(1, 7), st.integers(1, 40), st.integers(0, 6)), min_size=1, max_size=12),
)
def test_what_is_cached_survives_every_change_of_rows_and_capacity(
    rows: int, step: int, sizes: list[tuple[int, int, int]]
) -> None:
    kept = memory(step)
    kept.allocate(rows, sizes[0][1], reserved=17)
    rng = np.random.default_rng(0)
    wanted = np.empty((4, rows, 2, 0, 3), FLOAT)
    for num_rows, length, reserved_rows in sizes:
        cached = min(wanted.shape[3], length)
        wanted = wanted[:, :num_rows, :, :cached]
        kept.fit(num_rows, cached, length, reserved_rows=reserved_rows)

        assert kept.array.shape[1] >= num_rows
        assert np.array_equal(kept.array[:, : wanted.shape[1], :, :cached], wanted)
        assert kept.array.flags.c_contiguous
        kept.array[:] = rng.normal(size=kept.array.shape)
        wanted = kept.array[:, :num_rows, :, :length].copy()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_the_capacity_is_never_much_above_the_longest_row(lengths: list[int]) -> None:
    kept = memory()
    kept.allocate(3, 1, reserved=40)
    for length in lengths:
        kept.fit(3, 1, length)

        assert length <= kept.capacity < 1.5 * (length + 4)


def test_memory_with_room_for_all_positions_is_allocated_once() -> None:
    kept = memory()
    kept.allocate(3, 1, reserved=40)
    for length in (3, 40, 5, 21, 1, 40):
        kept.fit(3, 1, length)

    assert kept.buffer.allocations == 1


def test_memory_that_has_to_grow_gets_room_for_twice_the_positions() -> None:
    kept = memory()
    kept.allocate(3, 1, reserved=8)
    kept.fit(3, 1, 8)
    kept.fit(3, 8, 9)

    assert (kept.capacity, kept.buffer.allocations) == (16, 2)


def test_what_moves_is_laid_out_for_the_rows_that_run() -> None:
    kept = memory(step=1)
    kept.allocate(3, 2, reserved=4)
    kept.array[:] = np.arange(kept.array.size).reshape(kept.array.shape)
    before = kept.array.copy()
    kept.fit(1, 2, 4)

    assert kept.array.shape == (4, 1, 2, 4, 3)
    assert np.array_equal(kept.array[:, :, :, :2], before[:, :1])


def test_few_rows_grow_long_in_the_memory_of_many_short_ones() -> None:
    kept = memory()
    kept.allocate(8, 8)
    kept.fit(2, 8, 32)

    assert (kept.capacity, kept.buffer.allocations) == (32, 1)


def test_memory_that_is_too_small_to_begin_is_freed_before_the_larger_one_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = memory()
    kept.allocate(2, 4)
    old, is_freed, release = weakref.ref(kept.buffer._memory), [], GrowingBuffer.release

    def watch(buffer: GrowingBuffer) -> None:
        release(buffer)
        is_freed.append(old() is None)

    monkeypatch.setattr(GrowingBuffer, "release", watch)
    kept.allocate(2, 40)

    assert is_freed == [True]
