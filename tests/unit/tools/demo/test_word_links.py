"""The true alignment of sentences of the grammar, and the error rate of one that was found."""

import pytest

from tools.demo.word_links import error_rate, unseen_linked_pairs
from worker.text.word_alignment import words


def test_sure_links_are_possible_ones_between_words_of_the_two_sentences() -> None:
    for pair in unseen_linked_pairs(100, seed=1):
        num_source, num_target = len(words(pair.english)), len(words(pair.chinese))
        assert pair.sure <= pair.possible
        assert all(i < num_source and j < num_target for i, j in pair.possible)


def test_numbers_are_linked_to_themselves() -> None:
    num_checked = 0
    for pair in unseen_linked_pairs(100, seed=2):
        english, chinese = ([text[start:stop] for start, stop in words(text)] for text in (pair.english, pair.chinese))
        for i, word in enumerate(english):
            if word[0].isdigit() and english.count(word) == chinese.count(word) == 1:
                assert (i, chinese.index(word)) in pair.sure, pair
                num_checked += 1
    assert num_checked > 50


def test_the_error_rate_is_that_of_och_and_ney() -> None:
    sure, possible = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1), (2, 2)}

    assert error_rate(sure, sure, possible) == 0
    assert error_rate({(0, 0), (2, 1)}, sure, possible) == pytest.approx(1 - (1 + 2) / (2 + 2))
    assert error_rate({(0, 2)}, sure, possible) == 1
