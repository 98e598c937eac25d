"""What follows from sums."""

import math

import pytest

from jobs.outcome import Score
from jobs.perplexity import Totals, perplexity, total


def test_measures_are_of_the_sums() -> None:
    totals = Totals(nll_sum=8 * math.log(4), num_tokens=8, num_words=4, num_bytes=16)

    assert totals.token_perplexity == pytest.approx(4)
    assert totals.word_perplexity == pytest.approx(16)
    assert totals.byte_perplexity == pytest.approx(2)
    assert totals.bits_per_byte == pytest.approx(1)


def test_a_corpus_is_its_sums_and_not_a_mean_of_perplexities() -> None:
    scores = [Score(math.log(2), 1, 1, 3), Score(9 * math.log(8), 9, 2, 30), Score(0.0, 0, 0, 0)]
    totals = total(iter(scores))

    assert totals == Totals(math.fsum((math.log(2), 9 * math.log(8))), 10, 3, 33)
    assert totals.token_perplexity == pytest.approx(2 ** (0.1 * 1 + 0.9 * 3))


def test_the_order_of_documents_changes_no_digit() -> None:
    scores = [Score(0.1 * 3**place, 1, 1, 1) for place in range(20)]

    assert total(scores) == total(scores[::-1])


def test_nothing_has_no_perplexity_and_too_much_is_infinite() -> None:
    nothing = total([])

    assert (nothing.token_perplexity, nothing.word_perplexity, nothing.byte_perplexity) == (None, None, None)
    assert nothing.bits_per_byte is None
    assert perplexity(1e6, 1) == math.inf
    assert perplexity(0.0, 5) == 1
