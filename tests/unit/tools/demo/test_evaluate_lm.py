"""Measures of a rank equal their formulas."""

import math

import pytest

from tools.demo.evaluate_lm import mrr, ndcg


def test_measures_of_a_rank_equal_their_formulas() -> None:
    assert ndcg([1, 3, 11]) == pytest.approx((1 + 1 / math.log2(4) + 0) / 3)
    assert mrr([1, 3, 11]) == pytest.approx((1 + 1 / 3 + 0) / 3)
