"""Shifts of scores, and when tokens may be compared."""

import math

import pytest

from jobs.comparison.scores import PER_BYTE, PER_TOKEN, ScoresCompared, ScoreShift

PAIRS = [((20.0, 10, 50), (22.0, 10, 50)), ((9.0, 3, 12), (8.4, 3, 12)), ((5.0, 5, 20), (5.0, 5, 20))]


def shift_of(*pairs: tuple[tuple[float, int, int], tuple[float, int, int]]) -> ScoreShift:
    compared = ScoresCompared()
    for a, b in pairs:
        compared.add(a, b)
    return compared.result()


def test_equal_numbers_of_tokens_are_compared_per_token() -> None:
    shift = shift_of(*PAIRS)

    assert shift.unit == PER_TOKEN
    assert shift.caution is None
    assert shift.mean == pytest.approx((0.2 - 0.2 + 0.0) / 3)
    assert (shift.lower, shift.identical, shift.higher) == (1, 1, 1)
    assert (shift.a.perplexity, shift.b.perplexity) == (
        pytest.approx(math.exp(34 / 18)),
        pytest.approx(math.exp(35.4 / 18)),
    )


def test_other_numbers_of_tokens_are_compared_per_byte_and_it_is_said_why() -> None:
    shift = shift_of(PAIRS[0], ((9.0, 3, 12), (8.4, 7, 12)))

    assert shift.unit == PER_BYTE
    assert shift.mean == pytest.approx((2 / 50 - 0.6 / 12) / math.log(2) / 2)
    assert shift.caution is not None
    assert "1 of 2 documents" in shift.caution
    assert "vocabulary" in shift.caution
    assert "Bits per byte" in shift.sentence


def test_the_interval_of_the_mean_is_that_of_paired_differences() -> None:
    shift = shift_of(*(((10.0, 10, 40), (10.0 + step, 10, 40)) for step in (1, 2, 3, 4)))

    error = math.sqrt(sum((step - 2.5) ** 2 for step in (1, 2, 3, 4)) / 3 / 4) / 10
    assert shift.confidence == (pytest.approx(0.25 - 1.96 * error), pytest.approx(0.25 + 1.96 * error))


def test_a_document_without_a_scored_token_is_left_out() -> None:
    shift = shift_of(PAIRS[0], ((0.0, 0, 0), (3.0, 1, 4)))

    assert (shift.documents, shift.unscored) == (1, 1)


def test_the_same_scores_are_said_to_be_the_same() -> None:
    assert shift_of(PAIRS[2]).sentence == "None of 1 score differs."
    assert shift_of().sentence == "No document was scored in both jobs."
