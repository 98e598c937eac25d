"""Links between words, from weights of attention."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from worker.engine.tasks.attention_links import link_equal_numbers, links_of, word_weights, words_covered


def test_a_token_covers_the_words_that_it_overlaps():
    words = [(0, 2), (3, 7), (7, 8), (8, 9)]
    tokens = [None, (0, 2), (2, 5), (5, 7), (7, 9), (9, 10), (8, 8), (2, 3)]

    assert [list(covered) for covered in words_covered(tokens, words)] == [[], [0], [1], [1], [2, 3], [], [3], []]
    assert [list(covered) for covered in words_covered(tokens, [])] == [[]] * 8


def test_what_tokens_attend_to_becomes_the_share_of_all_words_that_they_cover() -> None:
    weights = np.array([[0.1, 0.9], [0.8, 0.2]])

    found = word_weights(weights, [[0], [1]], [[0, 1], [2]], 2, 3)

    assert found.argmax(1).tolist() == [1, 1, 0]
    assert links_of(found) == [(0, 2), (1, 0), (1, 1)]


def test_tokens_without_a_word_take_no_part() -> None:
    weights = np.array([[0.2, 0.1, 0.7], [0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])

    assert links_of(word_weights(weights, [[0], [1], []], [[0], [], [1]], 2, 2)) == [(0, 0), (1, 1)]
    assert word_weights(weights, [[], [], []], [[0], [], [1]], 2, 2).tolist() == [[0, 0], [0, 0]]


def test_a_word_is_shared_among_those_that_agree_on_it() -> None:
    weights = np.array([[0.5, 0.5], [0.05, 0.95]])

    first, second = word_weights(weights, [[0], [1]], [[0], [1]], 2, 2)

    assert first[0] > 0.8, "the second word of the source belongs to the second of the target"
    assert second[1] > 0.5


def test_words_that_a_head_gives_equal_weight_keep_it_and_take_nothing_from_the_token_before() -> None:
    weights = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    own = [[0], [1], [2]]

    assert np.allclose(word_weights(weights, own, own, 3, 3, of_head=True), weights)
    assert word_weights(weights, own, own, 3, 3)[2, 0] > 0.1


@given(arrays.arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.floats(0, 1)))
def test_weights_are_shares_and_links_are_sorted(weights: NDArray[np.float64]) -> None:
    target, source = ([[index] for index in range(size)] for size in weights.shape)

    found = word_weights(weights, source, target, len(source), len(target))

    assert np.allclose(found.sum(1), 1)
    assert (found >= 0).all()
    links = links_of(found)
    assert links == sorted(set(links))


@pytest.mark.parametrize("size", [1, 5])
def test_one_word_for_each_is_linked_to_its_own(size: int) -> None:
    own = [[index] for index in range(size)]

    assert links_of(word_weights(np.eye(size), own, own, size, size)) == [(index, index) for index in range(size)]


def test_a_number_is_linked_to_the_equal_one_unless_there_are_two() -> None:
    found = np.full((3, 4), 0.25)

    link_equal_numbers(found, ["at", "12", "5", "5"], ["12", "5", "at"])

    assert found.tolist() == [[0, 1, 0, 0], [0.25] * 4, [0.25] * 4]
