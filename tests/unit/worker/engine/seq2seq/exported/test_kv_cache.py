"""The KV buffers for exported graphs, compared with plain arrays that are copied completely."""

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.seq2seq.exported.kv_cache import ExportedKVCache
from worker.models.layout.seq2seq_layout import CacheShape

SHAPE = CacheShape(num_layers=2, num_heads=3, head_size=4, dtype=np.dtype(np.float32))


class Graph:
    """In place of an IOBinding and its graph: `fed` are the bound inputs, `taken` the bound outputs, as arrays."""

    def __init__(self) -> None:
        self.fed: dict[str, Any] = {}
        self.taken: dict[str, Any] = {}

    def bind_input(self, name: str, device: str, number: int, dtype: Any, shape: Any, pointer: int) -> None:
        self.fed[name] = self._at(dtype, shape, pointer)

    def bind_output(self, name: str, device: str, number: int, dtype: Any, shape: Any, pointer: int) -> None:
        self.taken[name] = self._at(dtype, shape, pointer)

    def _at(self, dtype: Any, shape: Any, pointer: int) -> Any:
        count = int(np.prod(shape))
        memory = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(pointer)
        return np.frombuffer(memory, dtype, count).reshape(shape)


def value(name: str, row: float, position: int) -> float:
    """A number that is unique to the tensor, the row and the position."""
    return sum(map(ord, name)) * 1e4 + row * 100 + position


def start(cache: ExportedKVCache, rows: int, source_length: int = 5, prefix: int = 1) -> Graph:
    """The first step of a batch."""
    graph = Graph()
    cache.reset(rows, source_length)
    cache.bind_prefix(graph, prefix)  # type: ignore[arg-type]
    for name, array in graph.taken.items():
        for row in range(rows):
            array[row] = [[[value(name, row, position)] for position in range(array.shape[2])]] * 3
    cache.advance(prefix)
    return graph


def step(cache: ExportedKVCache, rows: list[float]) -> Graph:
    """One decoding step, as graphs do it: the present is the past and one more position."""
    graph = Graph()
    cache.bind_step(graph)  # type: ignore[arg-type]
    cache.bind_source(graph)  # type: ignore[arg-type]
    for past_name, present_name in SHAPE.names("decoder"):
        past, present = graph.fed[past_name], graph.taken[present_name]
        present[:, :, :-1] = past
        for row, of in enumerate(rows):
            present[row, :, -1] = value(present_name, of, past.shape[2])
    cache.advance(cache.length + 1)
    return graph


def test_the_present_of_one_step_is_the_past_of_the_next() -> None:
    cache = ExportedKVCache(SHAPE)
    start(cache, 2)
    for length in range(1, 6):
        graph = step(cache, [0, 1])
        for past, present in SHAPE.names("decoder"):
            assert graph.fed[past].shape == (2, 3, length, 4)
            assert graph.taken[present].shape == (2, 3, length + 1, 4)
            for row in range(2):
                assert graph.fed[past][row, 0, :, 0].tolist() == [
                    pytest.approx(value(present, row, position)) for position in range(length)
                ]


@given(st.data())
def test_select_equals_copying_everything(data: st.DataObject) -> None:
    cache = ExportedKVCache(SHAPE)
    num_rows = data.draw(st.integers(1, 5))
    start(cache, num_rows)
    expected: list[list[float]] = [[row] for row in range(num_rows)]  # for each row: which row wrote each position
    sources = list(range(num_rows))
    for _ in range(data.draw(st.integers(1, 6))):
        rows = data.draw(st.lists(st.integers(0, len(expected) - 1), min_size=1, max_size=9))
        cache.select(np.array(rows))
        expected, sources = [expected[row] for row in rows], [sources[row] for row in rows]
        graph = step(cache, [float(row) for row in range(len(rows))])
        for past, present in SHAPE.names("decoder"):
            for row, history in enumerate(expected):
                assert graph.fed[past][row, 1, :, 2].tolist() == [
                    pytest.approx(value(present, of, position)) for position, of in enumerate(history)
                ]
        for past, present in SHAPE.names("encoder"):
            assert graph.fed[past].shape == (len(rows), 3, 5, 4)
            for row, source in enumerate(sources):
                assert graph.fed[past][row, 2, :, 1].tolist() == [
                    pytest.approx(value(present, source, position)) for position in range(5)
                ]
        expected = [[*history, float(row)] for row, history in enumerate(expected)]


def test_a_past_that_outgrows_its_buffer_keeps_its_content() -> None:
    cache = ExportedKVCache(SHAPE)
    start(cache, 2)
    allocations = cache.buffer_stats.allocations
    for _ in range(100):
        graph = step(cache, [0, 1])

    assert cache.buffer_stats.allocations > allocations
    (past, present), *_ = SHAPE.names("decoder")
    assert graph.fed[past][1, 0, :, 0].tolist() == pytest.approx(
        [value(present, 1, position) for position in range(100)]
    )


def test_a_second_batch_of_the_same_size_allocates_nothing() -> None:
    cache = ExportedKVCache(SHAPE)
    for _ in range(3):
        start(cache, 4)
        cache.select(np.repeat(np.arange(4), 3))
        for _ in range(50):
            step(cache, [0.0] * 12)
    after_first = cache.buffer_stats.allocations, cache.buffer_stats.num_bytes
    start(cache, 4)
    for _ in range(50):
        step(cache, [0.0] * 4)
    start(cache, 2, source_length=3)

    assert (cache.buffer_stats.allocations, cache.buffer_stats.num_bytes) == after_first
    assert cache.buffer_stats.reuses == 4, "all but the first batch"
    assert cache.buffer_stats.num_bytes > 0


def test_reordering_beams_moves_no_cross_attention_keys() -> None:
    cache = ExportedKVCache(SHAPE)
    start(cache, 2)
    cache.select(np.repeat(np.arange(2), 3))
    marks = cache._cross[:] = np.arange(cache._cross.size).reshape(cache._cross.shape)  # any move would change it

    for rows in ([2, 0, 0, 5, 3, 3], [1, 1, 0, 4, 4, 5]):
        cache.select(np.array(rows))

    assert (cache._cross == marks).all()


def test_only_rows_that_move_are_copied() -> None:
    cache = ExportedKVCache(SHAPE)
    start(cache, 4)
    row_size = 3 * 1 * 4
    spare = cache._self[1 - cache._past]
    spare[:] = 7.0

    cache.select(np.array([0, 1, 3, 3]))

    assert (spare[:, row_size:] == 7.0).all(), "only one row was copied through the spare buffer"


def test_a_graph_without_a_cache_needs_only_the_buffers_of_a_step() -> None:
    cache = ExportedKVCache(None)
    cache.reset(8, 100)
    cache.select(np.array([3, 1]))
    assert cache.buffer_stats.num_bytes == 0

    first = cache.step_buffer("logits", (4, 1, 10), np.dtype(np.float32))
    first[:] = 1.0
    second = cache.step_buffer("logits", (2, 2, 10), np.dtype(np.float32))

    assert np.shares_memory(first, second)
    assert second.shape == (2, 2, 10)
    assert cache.buffer_stats.num_bytes == 160
