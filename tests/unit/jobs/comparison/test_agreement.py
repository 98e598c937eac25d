"""How far translations and rankings agree, in numbers and in a sentence."""

import pytest

from jobs.comparison.rankings import RankingsCompared
from jobs.comparison.translations import TranslationsCompared


def test_translations_are_the_same_to_the_byte_or_differ_in_words() -> None:
    compared = TranslationsCompared()
    shares = [compared.add(*pair) for pair in (("a b", "a b"), ("a  b", "a b"), ("a b", "a c"), ("甲乙丙", "甲乙丁"))]

    found = compared.result()
    assert shares == [0.0, 0.0, 0.5, pytest.approx(1 / 3)]
    assert (found.documents, found.identical, found.same_words) == (4, 1, 2)
    assert found.mean_changed == pytest.approx((0.5 + 1 / 3) / 4)
    assert found.mean_changed_if_different == pytest.approx((0.5 + 1 / 3) / 2)
    assert found.sentence.startswith("1 of 4 translations are the same (25.0 %); in those with other words, 41.6 %")
    assert sum(one.documents for one in found.histogram) == 4


def test_all_the_same_and_none_at_all_are_said_in_so_many_words() -> None:
    compared = TranslationsCompared()
    assert compared.result().sentence == "No document was translated in both jobs."

    compared.add("a", "a")
    assert compared.result().sentence == "None of 1 translation differs, not even by a byte."


def test_white_space_alone_is_named() -> None:
    compared = TranslationsCompared()
    compared.add("a b", "a\nb")

    assert (
        compared.result().sentence == "0 of 1 translation are the same (0.0 %); the others differ in white space alone."
    )


def test_rankings_are_the_same_or_move_candidates() -> None:
    compared = RankingsCompared()
    distances = [
        compared.add(*pair) for pair in ((["a", "b", "c"], ["a", "b", "c"]), (["a", "b", "c"], ["c", "b", "a"]))
    ]

    found = compared.result()
    assert distances[0] == 0.0
    assert distances[1] > 0.1
    assert (found.documents, found.identical, found.same_top, found.other_candidates) == (2, 1, 1, 0)
    assert (found.overlap_at_10, found.kendall_tau, found.rank_change) == (1.0, 0.0, pytest.approx(2 / 3))
    assert [one.documents for one in found.histogram][-1] == 1


def test_other_candidates_are_counted_and_compared_by_what_both_have() -> None:
    compared = RankingsCompared()
    compared.add(["a", "b"], ["b", "x", "a"])

    found = compared.result()
    assert found.other_candidates == 1
    assert found.kendall_tau == -1.0
