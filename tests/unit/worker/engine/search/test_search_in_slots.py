"""Sentences that begin at different steps, in a search and in the KV slots that follow it: no model, no session."""

import functools
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.engine.search.steps import EOS, RandomStep, ids, rules, slow_beam_search
from worker.engine.search.beam import BeamSearch
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.search import Search, new_search, search
from worker.engine.seq2seq.native.kv_slots import KVSlots, KVSlotShape

VOCAB = 14
SHAPE = KVSlotShape(num_layers=1, num_heads=2, head_size=1, dtype=np.dtype(np.float32))

# Each sentence: its seed, and the step of the search before which it does not arrive.
ARRIVALS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 12)), min_size=1, max_size=9)
RULES = st.fixed_dictionaries(
    {
        "num_beams": st.integers(1, 5),
        "early_stopping": st.sampled_from([False, True, "never"]),
        "length_penalty": st.sampled_from([0.0, 1.0, 2.0]),
        "max_new_tokens": st.integers(1, 9),
        "forced_eos_id": st.sampled_from([None, EOS]),
    }
)


def follow_arrivals(
    running: Search,
    steps: Any,
    arrivals: Sequence[tuple[int, int]],
    rules: GenerationConfig,
    room: int,
    each_step: Callable[[Any], None] = lambda moves: None,
) -> list[list[Hypothesis]]:
    """The hypotheses of every arrival (seed, earliest step), with at most `room` sentences in the search at a time."""
    waiting = deque(sorted(range(len(arrivals)), key=lambda index: arrivals[index][1]))
    found: dict[int, list[Hypothesis]] = {}
    now = 0
    while waiting or running.num_sentences:
        free = room - running.num_sentences
        arrived: list[int] = []
        while waiting and len(arrived) < free and (arrivals[waiting[0]][1] <= now or not running.num_sentences):
            arrived.append(waiting.popleft())
        if arrived:
            steps.admit([arrivals[index][0] for index in arrived for _ in range(rules.num_beams)])
            running.add(arrived)
        ended, moves = running.advance(steps.step(running.last_ids))
        assert not found.keys() & ended.keys(), "each sentence ends once"
        found |= ended
        if moves is not None:
            steps.select(moves)
        now += 1
    return [found[index] for index in range(len(arrivals))]


@given(arrivals=ARRIVALS, changes=RULES, room=st.integers(1, 5), eos_bias=st.floats(-1, 4))
def test_the_time_of_arrival_does_not_change_the_result_of_a_sentence(
    arrivals: list[tuple[int, int]], changes: dict[str, Any], room: int, eos_bias: float
) -> None:
    asked = rules(**changes)
    alone = [search(RandomStep([seed], VOCAB, eos_bias=eos_bias), 1, asked)[0] for seed, _ in arrivals]

    found = follow_arrivals(new_search(asked), RandomStep([], VOCAB, eos_bias=eos_bias), arrivals, asked, room)

    assert found == alone


@given(arrivals=ARRIVALS, changes=RULES, room=st.integers(1, 5), eos_bias=st.floats(-1, 4))
def test_sentences_that_arrive_at_different_times_equal_the_slow_reference(
    arrivals: list[tuple[int, int]], changes: dict[str, Any], room: int, eos_bias: float
) -> None:
    asked = rules(**changes | {"num_beams": max(2, changes["num_beams"])})

    found = follow_arrivals(new_search(asked), RandomStep([], VOCAB, eos_bias=eos_bias), arrivals, asked, room)

    for (seed, _), fast in zip(arrivals, found, strict=True):
        slow = slow_beam_search(seed, VOCAB, eos_bias, asked)
        assert ids(fast) == ids(slow)
        for hypothesis, expected in zip(fast, slow, strict=True):
            assert hypothesis.score == pytest.approx(expected.score, abs=1e-3)


@given(seeds=st.lists(st.integers(0, 99), min_size=1, max_size=5), changes=RULES, eos_bias=st.floats(-1, 4))
def test_sharing_one_row_among_the_first_beams_changes_no_result(
    seeds: list[int], changes: dict[str, Any], eos_bias: float
) -> None:
    asked = rules(**changes | {"num_beams": max(2, changes["num_beams"])})
    one_row = search(RandomStep(seeds, VOCAB, eos_bias=eos_bias), len(seeds), asked)

    all_rows = follow_arrivals(
        BeamSearch(asked, first_step_rows=asked.num_beams),
        RandomStep([], VOCAB, eos_bias=eos_bias),
        [(seed, 0) for seed in seeds],
        asked,
        len(seeds),
    )

    assert all_rows == one_row


@functools.cache
def digest(seed: int, fed: tuple[int, ...]) -> int:
    """A number that float32 holds, of all tokens of a row."""
    return zlib.crc32(repr((seed, fed)).encode()) % 2**20


class SlotStep(RandomStep):
    """Writes into real slots, as a decoder writes keys and values, and checks all slots in each step. What it writes at
    a position depends on all tokens up to there."""

    def __init__(self, num_beams: int, room: int, eos_bias: float) -> None:
        super().__init__([], VOCAB, eos_bias=eos_bias)
        self.num_beams = num_beams
        self.slots = KVSlots(SHAPE)
        self.slots.allocate(room, num_beams, 1, 16)
        for memory in (self.slots._past, self.slots._cross):
            memory.array[:] = np.nan

    def admit(self, seeds: Sequence[int]) -> None:
        super().admit(seeds)
        for seed in seeds[:: self.num_beams]:
            length = 1 + seed % 16
            self.slots.append(np.full((1, length, 2, 2, 1), seed, np.float32))

    def step(self, last_ids: Any) -> Any:
        slots = self.slots
        slots._past.fit(slots.num_rows, slots.longest, slots.longest + 1)
        for row, token in enumerate(last_ids.tolist()):
            seed, fed = self.rows[row]
            slots._past.array[:, row, :, slots._positions[row]] = digest(seed, (*fed, token))
        slots.advance()
        logits = super().step(last_ids)
        self.check()
        return logits

    def select(self, rows: Any) -> None:
        super().select(rows)
        self.slots.select(rows)
        self.check()

    def check(self) -> None:
        slots = self.slots
        assert slots.num_rows == len(self.rows)
        for row, (seed, fed) in enumerate(self.rows):
            sentence = row // self.num_beams
            assert slots._positions[row] == len(fed)
            wanted = [digest(seed, fed[: length + 1]) for length in range(len(fed))]
            assert (slots._past.array[:, row, :, : len(fed), 0] == wanted).all()
            assert slots._source_ends[sentence] == seed % 16
            assert (slots._cross.array[:, sentence, :, : 1 + seed % 16] == seed).all()


@given(
    arrivals=ARRIVALS,
    changes=RULES,
    max_new_tokens=st.integers(1, 40),
    room=st.integers(1, 5),
    eos_bias=st.floats(-3, 4),
)
def test_slots_follow_every_row_move_of_a_search(
    arrivals: list[tuple[int, int]], changes: dict[str, Any], max_new_tokens: int, room: int, eos_bias: float
) -> None:
    """Some moves copy from a row that is itself overwritten: it has to be read first."""
    asked = rules(**changes | {"max_new_tokens": max_new_tokens})

    found = follow_arrivals(new_search(asked), SlotStep(asked.num_beams, room, eos_bias), arrivals, asked, room)

    assert all(found)
