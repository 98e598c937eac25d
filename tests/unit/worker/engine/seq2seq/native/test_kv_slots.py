"""The KV memory of a lane: what is copied when rows move, what is kept, and when memory is allocated."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.search.rows import assign_rows, compact_rows
from worker.engine.seq2seq.native import kv_memory
from worker.engine.seq2seq.native.kv_slots import KVSlots, KVSlotShape

SHAPE = KVSlotShape(num_layers=2, num_heads=2, head_size=4, dtype=np.dtype(np.float32))


def filled(sentences: int, beams: int, *, positions: int = 5, seed: int = 0) -> KVSlots:
    """Slots filled with random numbers, for sources of different lengths."""
    rng = np.random.default_rng(seed)
    slots = KVSlots(SHAPE)
    slots.allocate(sentences, beams, 16, 16)
    for length in rng.integers(1, 17, sentences):
        slots.append(np.zeros((1, length, 4, 2, 4), np.float32))
    slots._past.fit(0, 0, 16)
    for memory in (slots._past, slots._cross):
        memory.array[:] = rng.normal(size=memory.array.shape)
    slots._positions[:] = rng.integers(0, positions + 1, sentences * beams)
    return slots


class Watched(np.ndarray[Any, Any]):
    """An array that records the second index of every write in `written`."""

    def __setitem__(self, key: Any, value: Any) -> None:
        self.written.append(key[1])
        super().__setitem__(key, value)


def watched(array: Any) -> Watched:
    view = array.view(Watched)
    view.written = []
    return view


@given(st.data(), st.integers(1, 6), st.integers(1, 5))
def test_select_copies_to_each_row_the_row_that_it_continues(data: st.DataObject, sentences: int, beams: int) -> None:
    """The result of numpy's take, which needs twice the memory; for the moves that a search can make."""
    slots = filled(sentences, beams)
    stays = np.array(data.draw(st.lists(st.booleans(), min_size=sentences, max_size=sentences)))
    beam = st.integers(0, beams - 1)
    parents = np.array([data.draw(st.lists(beam, min_size=beams, max_size=beams)) for _ in range(sentences)])
    continued = np.empty_like(parents)
    np.put_along_axis(continued, assign_rows(parents), parents, axis=1)
    stay = compact_rows(stays)
    moves = (beams * stay[:, None] + continued[stay]).ravel()
    past, cross = slots._past.array.copy(), slots._cross.array.copy()
    positions, ends, longest = slots._positions.copy(), slots._source_ends.copy(), slots.longest
    for memory in (slots._past, slots._cross):
        memory.array = watched(memory.array)

    with (
        pytest.MonkeyPatch.context() as patch
    ):  # what the kernel copies nobody can watch; tests/models/kernels compares
        patch.setattr(kv_memory, "compiled_kernels", lambda: None)
        slots.select(moves)

    assert slots.num_rows == len(moves)
    assert (slots._positions[: len(moves)] == positions.take(moves)).all()
    assert (slots._source_ends[: len(stay)] == ends.take(stay)).all()
    for row, old in enumerate(moves.tolist()):
        own = positions[old]
        assert (slots._past.array[:, row, :, :own] == past[:, old, :, :own]).all()
    for slot, old in enumerate(stay.tolist()):
        assert (slots._cross.array[:, slot, :, : ends[old] + 1] == cross[:, old, :, : ends[old] + 1]).all()
    assert slots._past.array.written == [row for row, old in enumerate(moves.tolist()) if row != old], "no other row"
    assert slots._cross.array.written == [slot for slot, old in enumerate(stay.tolist()) if slot != old]
    assert (slots._past.array[..., longest:, :] == past[..., longest:, :]).all(), (
        "nothing is written beyond the longest row"
    )


def test_a_row_that_continues_another_copies_only_the_positions_that_it_lacks() -> None:
    slots = filled(1, 2)
    slots._positions[:] = 3
    slots.select(np.array([0, 0]))
    assert (slots._past.array[:, 1, :, :3] == slots._past.array[:, 0, :, :3]).all()
    slots._past.array[:, 1, :, :3] = 7
    for _ in range(2):
        slots.advance()

    slots.select(np.array([0, 0]))

    assert (slots._past.array[:, 1, :, :3] == 7).all(), "the rows had these in common"
    assert (slots._past.array[:, 1, :, 3:5] == slots._past.array[:, 0, :, 3:5]).all()


def test_the_rows_of_a_sentence_have_nothing_in_common_from_the_last_one_in_their_slot() -> None:
    slots = filled(1, 2)
    slots._positions[:] = 3
    slots.select(np.array([0, 0]))
    slots.select(np.arange(0))
    slots.append(np.zeros((1, 3, 4, 2, 4), np.float32))
    slots._past.array[:, 1] = 7
    slots.advance()

    slots.select(np.array([0, 0]))

    assert (slots._past.array[:, 1, :, :1] == slots._past.array[:, 0, :, :1]).all()


def test_admitted_sentences_follow_the_others_and_start_at_position_0() -> None:
    slots = filled(2, 3)
    before = slots._past.array.copy()
    slots.select(np.arange(3))
    cross = np.arange(7 * 4 * 2 * 4, dtype=np.float32).reshape(1, 7, 4, 2, 4)

    slots.append(cross)

    assert slots.num_rows == 6
    assert slots._positions[3:].tolist() == [0, 0, 0]
    assert slots._source_ends[1] == 6
    assert (slots._cross.array[:, 1, :, :7] == cross[0].transpose(1, 2, 0, 3)).all()
    assert (slots._past.array == before).all()


def test_memory_is_allocated_only_if_the_present_buffers_are_too_small() -> None:
    slots = KVSlots(SHAPE)
    counts = []
    for sentences, beams, positions, source_length in ((4, 1, 20, 9), (4, 1, 32, 9), (2, 2, 17, 3), (5, 1, 32, 16)):
        slots.allocate(sentences, beams, positions, source_length)
        counts.append((slots.buffer_stats.allocations, slots.buffer_stats.reuses))

    assert counts == [(2, 0), (2, 1), (2, 2), (4, 2)]
    assert slots.buffer_stats.num_bytes == 4 * (4 * 5 * 2 * 32 * 4 + 4 * 5 * 2 * 16 * 4)


class Recorded:
    """In place of an IOBinding: the address and shape of each name that was bound last, and how often names were."""

    def __init__(self) -> None:
        self.bound: dict[str, tuple[tuple[int, ...], int]] = {}
        self.count = 0

    def bind_input(self, name: str, device: str, number: int, dtype: Any, shape: tuple[int, ...], address: int) -> None:
        self.bound[name] = shape, address
        self.count += 1

    bind_output = bind_input


# What happens between two steps: a batch of (sentences, beams, positions, source length), or what became of rows.
BEGIN = st.tuples(st.integers(1, 4), st.integers(1, 2), st.sampled_from([16, 32]), st.sampled_from([16, 32]))
EVENT = st.one_of(BEGIN, st.sampled_from(["end", "append", "step", "grow"]))


@given(st.lists(EVENT, max_size=12))
def test_a_binding_that_is_kept_for_a_number_of_rows_is_what_a_new_one_would_be(events: list[Any]) -> None:
    slots = KVSlots(SHAPE)
    kept: dict[tuple[int, int], Recorded] = {}
    size, beams = 1, 1
    slots.allocate(size, beams, 16, 16)
    for event in ["append", *events]:
        if isinstance(event, tuple):
            size, beams, *lengths = event
            slots.allocate(size, beams, *lengths)
        elif event == "append" and slots.num_sentences < size:
            slots.append(np.zeros((1, 3, 4, 2, 4), np.float32))
        elif event == "end" and slots.num_sentences:
            slots.select(np.arange(slots.num_rows - beams))
        elif event == "grow" and slots.num_rows:
            slots._positions[: slots.num_rows] = slots._past.capacity
        elif slots.num_rows:
            slots.advance()
        binding, new = kept.setdefault((beams, slots.num_rows), Recorded()), Recorded()
        slots.bind(binding)  # type: ignore[arg-type]
        slots.bind(binding)  # type: ignore[arg-type]  # memory that has grown to twice the need is laid out closer
        before = binding.count
        slots.bind(binding)  # type: ignore[arg-type]
        assert binding.count == before
        slots.bind(new)  # type: ignore[arg-type]
        assert binding.bound == new.bound
