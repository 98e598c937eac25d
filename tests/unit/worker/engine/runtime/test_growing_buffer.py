"""A buffer that grows on demand and is reused for the next array."""

import weakref

import numpy as np
import pytest

from worker.engine.runtime.host_arrays import GrowingBuffer


def test_arrays_share_the_start_of_the_buffer_until_it_has_to_grow() -> None:
    buffer = GrowingBuffer(np.dtype(np.float32))

    large = buffer.lay_out((3, 4))
    large[:] = 1
    small = buffer.lay_out((2, 5))

    assert np.shares_memory(large, small)
    assert (small == 1).all(), "nothing is cleared"
    assert (buffer.allocations, buffer.size, buffer.num_bytes) == (1, 12, 48)
    assert not np.shares_memory(buffer.lay_out((13,)), large)
    assert (buffer.allocations, buffer.size) == (2, 13)


def test_the_old_memory_is_freed_before_the_new_memory_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = GrowingBuffer(np.dtype(np.float32))
    buffer.lay_out((4,))
    old = weakref.ref(buffer._memory)
    empty = np.empty

    def allocate(size: int, dtype: np.dtype) -> np.ndarray:
        if size:
            assert old() is None
        return empty(size, dtype)

    monkeypatch.setattr(np, "empty", allocate)
    buffer.lay_out((8,))
