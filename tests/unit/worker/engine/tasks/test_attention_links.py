"""Links between words, from weights of attention."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from worker.engine.tasks.attention_links import grow, word_links, words_covered

LINKS = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)))


def test_a_token_covers_the_words_that_it_overlaps():
    words = [(0, 2), (3, 7), (7, 8), (8, 9)]
    tokens = [None, (0, 2), (2, 5), (5, 7), (7, 9), (9, 10), (8, 8), (2, 3)]

    assert [list(covered) for covered in words_covered(tokens, words)] == [[], [0], [1], [1], [2, 3], [], [3], []]
    assert [list(covered) for covered in words_covered(tokens, [])] == [[]] * 8


def test_links_of_tokens_become_links_of_all_words_that_they_cover():
    weights = np.array([[0.1, 0.9], [0.8, 0.2]])

    assert word_links(weights, [[0], [1]], [[0, 1], [2]]) == [(0, 2), (1, 0), (1, 1)]


def test_tokens_without_a_word_take_no_part():
    weights = np.array([[0.2, 0.1, 0.7], [0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])

    assert word_links(weights, [[0], [1], []], [[0], [], [1]]) == [(0, 0), (1, 1)]
    assert word_links(weights, [[], [], []], [[0], [], [1]]) == []


def test_links_grow_to_neighbours_that_lack_one():
    assert grow({(1, 1)}, {(1, 1), (1, 2), (2, 2), (0, 0), (4, 4)}) == {(0, 0), (1, 1), (1, 2), (2, 2)}
    assert grow({(0, 0), (1, 1)}, {(0, 0), (0, 1), (1, 1)}) == {(0, 0), (1, 1)}, "both words have one"
    assert grow(set(), {(0, 0)}) == set()


@given(LINKS, LINKS)
def test_grown_links_are_between_those_of_both_directions_and_those_of_either(first, second):
    grown = grow(first & second, first | second)

    assert first & second <= grown <= first | second


@given(arrays.arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.floats(0, 1)))
def test_links_are_sorted_and_of_words_that_exist(weights):
    target, source = ([[index] for index in range(size)] for size in weights.shape)

    links = word_links(weights, source, target)

    assert links == sorted(set(links))
    assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j in links)


@pytest.mark.parametrize("size", [1, 5])
def test_one_word_for_each_is_linked_to_its_own(size):
    own = [[index] for index in range(size)]

    assert word_links(np.eye(size), own, own) == [(index, index) for index in range(size)]
