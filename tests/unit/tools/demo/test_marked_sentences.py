"""A translation with its marks where the grammar has them is right, and with them elsewhere it is not."""

from collections.abc import Iterator
from random import Random

import pytest

from tools.demo.marked_sentences import KINDS, RIGHT, WRONG, Marked, judge, marked
from tools.demo.word_links import unseen_linked_pairs
from worker.text.word_alignment import words


def some(*kinds: str) -> Iterator[Marked]:
    """Twenty marked sentences or so."""
    rng, found = Random(1), 0
    for number, pair in enumerate(unseen_linked_pairs(60, seed=3)):
        if (one := marked(kinds[number % len(kinds)], pair, rng)) is not None:
            found += 1
            yield one
    assert found > 20


def test_a_placeholder_is_right_where_its_word_stands_and_nowhere_else() -> None:
    for one in some("number", "name", "address"):
        ((mark, word),) = one.words
        chinese = one.plain.chinese
        assert judge(one, chinese.replace(word, mark)) == RIGHT
        assert judge(one, chinese.replace(word, "") + mark) != RIGHT
        assert judge(one, chinese) == WRONG
        assert judge(one, chinese.replace(word, mark) + mark) == WRONG


def test_a_pair_is_right_around_the_words_that_it_needs() -> None:
    for one in some("phrase", "run"):
        assert one.pair is not None
        chinese = one.plain.chinese
        spans = words(chinese)
        start, stop = spans[min(one.pair.needed)][0], spans[max(one.pair.needed)][1]
        assert judge(one, f"{chinese[:start]}<b>{chinese[start:stop]}</b>{chinese[stop:]}") == RIGHT
        assert judge(one, f"{chinese}<b></b>") == WRONG
        assert judge(one, f"{chinese[:start]}</b>{chinese[start:stop]}<b>{chinese[stop:]}") == WRONG


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_without_its_marks_is_that_of_the_grammar(kind: str) -> None:
    for one in some(kind):
        assert all(one.text.count(mark) == 1 for mark in one.marks)
        if not one.words:
            text = one.text
            for mark in one.marks:
                text = text.replace(mark, "")
            assert text == one.plain.english
