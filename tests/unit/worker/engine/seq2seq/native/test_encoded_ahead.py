"""Sentences wait for their slots encoded; calls of the encoder do not depend on how many slots are free."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.continuous_batching import ENCODED_TOKENS, EncodedAhead


class Encoder:
    """Graphs whose keys and values are the ids themselves."""

    def __init__(self, *, encodes_on_device: bool = False) -> None:
        self.encodes_on_device = encodes_on_device
        self.calls: list[tuple[int, ...]] = []  # (m, S) of each

    def encode_for_slots(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        self.calls.append(ids.shape)
        return ids[:, :, None, None, None]


def sentences(lengths: Sequence[int]) -> tuple[list[list[int]], deque[int]]:
    """Segments of these lengths, each of a number of its own, and their indices, longest first."""
    segments = [[index] * length for index, length in enumerate(lengths)]
    return segments, deque(sorted(range(len(lengths)), key=lambda index: -lengths[index]))


Lengths = st.lists(st.sampled_from([3, 4, 100, ENCODED_TOKENS, 2 * ENCODED_TOKENS]), max_size=40)


@given(Lengths, st.lists(st.integers(1, 9), min_size=40, max_size=40), st.booleans())
def test_every_sentence_is_taken_once_in_order_with_its_own_keys_and_values(
    lengths: list[int], free: list[int], on_device: bool
) -> None:
    segments, waiting = sentences(lengths)
    wanted, run = list(waiting), RunContext()
    ahead, found = EncodedAhead(Encoder(encodes_on_device=on_device), segments, waiting, run), list[int]()
    for most in free:
        if not ahead:
            break
        taken, cross = ahead.take(most)
        assert 1 <= len(taken) <= most
        assert cross[..., 0, 0, 0].tolist() == [segments[index] for index in taken]
        found += taken
        assert sorted([*found, *ahead.begun, *waiting]) == sorted(wanted), "none is lost where a run is given up"
    assert found == wanted
    assert sum(timing.tokens for timing in run.timings) == sum(lengths), "nothing is padded"


@given(Lengths)
def test_calls_of_the_encoder_are_as_large_as_the_lengths_allow_however_few_slots_are_free(lengths: list[int]) -> None:
    def calls(most: int) -> list[tuple[int, ...]]:
        encoder = Encoder()
        ahead = EncodedAhead(encoder, *sentences(lengths), RunContext())
        while ahead:
            ahead.take(most)
        return encoder.calls

    wanted = []
    for length in sorted(set(lengths), reverse=True):
        count, most = lengths.count(length), max(1, ENCODED_TOKENS // length)
        wanted += [(min(most, count - start), length) for start in range(0, count, most)]
    assert calls(1) == calls(1000) == wanted


def test_what_cannot_be_cut_on_a_device_is_encoded_for_the_free_slots_alone() -> None:
    encoder = Encoder(encodes_on_device=True)
    ahead = EncodedAhead(encoder, *sentences([5] * 7), RunContext())

    assert [len(ahead.take(most)[0]) for most in (4, 2, 9)] == [4, 2, 1]
    assert encoder.calls == [(4, 5), (2, 5), (1, 5)]


def test_sentences_of_a_call_that_failed_are_not_lost() -> None:
    class Full(Encoder):
        def encode_for_slots(self, ids: NDArray[np.int64]) -> NDArray[Any]:
            raise MemoryError

    ahead = EncodedAhead(Full(), *sentences([5] * 3), RunContext())

    with pytest.raises(MemoryError):
        ahead.take(1)
    assert ahead.begun == [0, 1, 2]


def test_sentences_that_are_not_finite_get_no_slot_and_are_not_lost() -> None:
    """Keys and values in int8 mark them: -128 throughout."""

    class Marked(Encoder):
        def encode_for_slots(self, ids: NDArray[np.int64]) -> NDArray[Any]:
            cross = np.zeros((*ids.shape, 2, 1, 8), np.int8)
            cross[ids[:, 0] % 3 == 0] = -128
            return cross

    segments, waiting = sentences([5] * 7)
    ahead = EncodedAhead(Marked(), segments, waiting, RunContext())

    taken, cross = ahead.take(2)

    assert (taken, ahead.begun, ahead.broken) == ([1, 2], [4, 5], [0, 3, 6])
    assert not cross.any()
