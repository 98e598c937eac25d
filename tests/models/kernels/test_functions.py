"""What the kernels of a search and of a cache refuse: a kernel itself knows only where an array begins."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from worker.kernels.functions import Kernels
from worker.kernels.library import open_library

ROWS = np.zeros((4, 50), np.float32)
FOUR, PAIRS = np.zeros(4, np.float32), np.zeros((2, 2), np.float32)
CACHE = np.zeros((2, 4, 1, 6, 8), np.float32)
ZERO, ONE = np.zeros(1, np.int64), np.ones(1, np.int64)
FIRST, LAST = np.zeros(1, np.int32), np.full(1, 6, np.int32)


@pytest.fixture(scope="module")
def own(library_is_there: None) -> Kernels:
    return Kernels(open_library())


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def misaligned(array: NDArray[Any]) -> NDArray[Any]:
    memory = np.zeros(array.nbytes + 1, np.uint8)
    return memory[1:].view(array.dtype).reshape(array.shape)


@pytest.mark.parametrize("x", [
    ROWS.astype(np.float16), ROWS.astype(np.float64), ROWS.astype(">f4"), ROWS[:, ::2], ROWS.T, misaligned(ROWS),
])  # fmt: skip
def test_an_array_of_another_type_or_with_gaps_is_refused(own: Kernels, x: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="row after row"):
        own.sum_powers(x, None)
    with pytest.raises(ValueError, match="row after row"):
        own.best_continuations(x, None, np.zeros(len(x), np.float32), np.zeros((len(x), 1), np.float32), 2)


@pytest.mark.parametrize("short", [FOUR[:3], FOUR.reshape(2, 2), FOUR.astype(np.float64)])
def test_factors_and_normalizers_of_other_rows_are_refused(own: Kernels, short: NDArray[Any]) -> None:
    for arrays in ((ROWS, short, FOUR, PAIRS), (ROWS, None, short, PAIRS), (ROWS[:3], None, FOUR, PAIRS)):
        with pytest.raises(ValueError, match="row after row"):
            own.best_continuations(*arrays, 2)
    with pytest.raises(ValueError, match="row after row"):
        own.sum_powers(ROWS, short)


@pytest.mark.parametrize("count", [-1, 0, 65, 2**62])
def test_more_continuations_than_there_is_room_for_are_refused(own: Kernels, count: int) -> None:
    with pytest.raises((ValueError, MemoryError)):
        own.best_continuations(ROWS, None, FOUR, PAIRS, count)
    scores, *_ = own.best_continuations(ROWS, None, FOUR, PAIRS, own.MAX_CONTINUATIONS)
    assert scores.shape == (2, 64)


@pytest.mark.parametrize("move", [
    (ONE * 4, ZERO, FIRST, LAST), (ZERO, ONE * 4, FIRST, LAST), (-ONE, ZERO, FIRST, LAST), (ZERO, -ONE, FIRST, LAST),
    (ZERO, ONE * 2**62, FIRST, LAST), (ZERO, ONE, FIRST - 1, LAST), (ZERO, ONE, FIRST, LAST + 1),
    (ZERO, ONE, FIRST, LAST[:0]), (ZERO, ONE[:0], FIRST, LAST), (ZERO, ONE, FIRST, LAST.astype(np.int64)),
])  # fmt: skip
def test_rows_and_positions_that_a_cache_lacks_are_not_copied(own: Kernels, move: tuple[NDArray[Any], ...]) -> None:
    cache = np.random.default_rng(0).normal(size=CACHE.shape).astype(np.float32)
    before = cache.copy()
    twice = [np.concatenate([good, bad]) for good, bad in zip((ONE * 2, ONE, FIRST, LAST), move, strict=True)]

    for arrays in (move, twice):
        with pytest.raises(ValueError, match=r"lacks|row after row"):
            own.copy_rows(cache, *arrays)
        np.testing.assert_array_equal(cache, before)


def test_a_row_is_copied_to_itself(own: Kernels) -> None:
    cache = np.random.default_rng(0).normal(size=CACHE.shape).astype(np.float32)
    before = cache.copy()
    own.copy_rows(cache, ONE, ONE, FIRST, LAST)
    np.testing.assert_array_equal(cache, before)


@pytest.mark.parametrize(("new", "kept", "cached"), [
    ((2, 4, 1, 6, 8), 5, 6), ((2, 4, 1, 6, 8), 4, 7), ((2, 3, 1, 6, 8), 4, 6), ((2, 4, 1, 5, 8), 4, 6),
    ((2, 4, 1, 6, 8), -1, 6), ((2, 4, 1, 6, 8), 4, -1),
    ((1, 4, 1, 6, 8), 1, 1), ((2, 4, 2, 6, 8), 1, 1), ((2, 4, 1, 6, 4), 1, 1),
])  # fmt: skip
def test_a_layout_that_is_too_small_is_refused(own: Kernels, new: tuple[int, ...], kept: int, cached: int) -> None:
    to = np.zeros(new, np.float32)
    with pytest.raises(ValueError, match=r"do not fit|row after row"):
        own.lay_out(CACHE, to, kept, cached)


def test_memory_that_may_only_be_read_is_not_written(own: Kernels) -> None:
    with pytest.raises(ValueError, match="row after row"):
        own.copy_rows(frozen(CACHE), ZERO, ONE, FIRST, LAST)
    with pytest.raises(ValueError, match="row after row"):
        own.lay_out(CACHE, frozen(CACHE), 1, 1)
