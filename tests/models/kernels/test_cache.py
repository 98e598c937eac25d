"""Moving what is cached, against numpy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker.engine.seq2seq.native import kv_memory
from worker.kernels.functions import Kernels

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
DTYPES = st.sampled_from([np.float32, np.int8, np.float16])


@QUICK
@given(st.data(), st.integers(1, 6), st.integers(1, 3), st.integers(1, 5), DTYPES)
def test_rows_are_copied_as_numpy_copies_them(
    kernels: Kernels, data: st.DataObject, rows: int, heads: int, capacity: int, dtype: type
) -> None:
    count = data.draw(st.integers(0, 8))
    row, position = st.integers(0, rows - 1), st.integers(0, capacity)
    to, source = (np.array(data.draw(st.lists(row, min_size=count, max_size=count)), np.int64) for _ in range(2))
    first, last = (np.array(data.draw(st.lists(position, min_size=count, max_size=count)), np.int32) for _ in range(2))
    to, source, first, last = (array[to != source] for array in (to, source, first, last))
    cache = np.arange(2 * rows * heads * capacity * 4).reshape(2, rows, heads, capacity, 4).astype(dtype)
    wanted = cache.copy()

    kv_memory.copy_rows(cache, to, source, first, last)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_memory, "compiled_kernels", lambda: None)
        kv_memory.copy_rows(wanted, to, source, first, last)
    np.testing.assert_array_equal(cache, wanted)


@QUICK
@given(
    st.integers(1, 4), st.tuples(st.integers(1, 5), st.integers(1, 9)), st.tuples(st.integers(1, 5), st.integers(1, 9)),
    st.integers(1, 3), st.data(), DTYPES,
)  # fmt: skip
def test_another_layout_of_the_same_memory_keeps_what_is_cached(
    kernels: Kernels, parts: int, old: tuple[int, int], new: tuple[int, int], heads: int, data: st.DataObject,
    dtype: type,
) -> None:  # fmt: skip
    """Rows and capacity may both change, either way."""
    kept = data.draw(st.integers(0, min(old[0], new[0])))
    cached = data.draw(st.integers(0, min(old[1], new[1])))
    shapes = [(parts, rows, heads, capacity, 2) for rows, capacity in (old, new)]
    memory = np.zeros(max(map(np.prod, shapes)), dtype)
    before, after = (memory[: np.prod(shape)].reshape(shape) for shape in shapes)
    before[:] = np.arange(before.size).reshape(before.shape)
    wanted = before[:, :kept, :, :cached].copy()

    kernels.lay_out(before, after, kept, cached)

    np.testing.assert_array_equal(after[:, :kept, :, :cached], wanted)
