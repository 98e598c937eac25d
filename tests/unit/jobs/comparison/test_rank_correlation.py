"""Measures of two orders, against their definitions and scipy."""

import random
from collections.abc import Sequence

import pytest

from jobs.comparison.rank_correlation import kendall_tau, mean_rank_change, overlap_at, rank_biased_overlap


def slow_rbo(a: Sequence[str], b: Sequence[str], p: float) -> float:
    """Equation 32 of Webber, Moffat and Zobel (2010), term by term."""
    short, long = sorted((a, b), key=len)
    s, l = len(short), len(long)  # noqa: E741 (as in the paper)

    def x(depth: int) -> int:
        return len(set(short[:depth]) & set(long[:depth]))

    first = sum(x(d) / d * p**d for d in range(1, l + 1))
    second = sum(x(s) * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * (first + second) + ((x(l) - x(s)) / l + x(s) / s) * p**l


def orders(generator: random.Random) -> tuple[list[str], list[str]]:
    ids = [f"d{number}" for number in range(15)]
    return generator.sample(ids, generator.randrange(2, 15)), generator.sample(ids, generator.randrange(2, 15))


def test_rank_biased_overlap_is_the_one_of_the_paper() -> None:
    generator = random.Random(1)
    for _ in range(300):
        a, b = orders(generator)
        for p in (0.5, 0.9, 0.98):
            assert rank_biased_overlap(a, b, p) == pytest.approx(slow_rbo(a, b, p))
            assert rank_biased_overlap(a, b, p) == pytest.approx(rank_biased_overlap(b, a, p))


def test_rank_biased_overlap_is_one_for_the_same_order_and_zero_for_nothing_in_common() -> None:
    assert rank_biased_overlap("abc", "abc") == pytest.approx(1.0)
    assert rank_biased_overlap("abc", "xyz") == 0.0
    assert rank_biased_overlap("", "") == 1.0
    assert rank_biased_overlap("abc", "") == 0.0


def test_a_swap_at_the_top_weighs_more_than_one_at_the_end() -> None:
    assert rank_biased_overlap("bacdef", "abcdef") < rank_biased_overlap("abcdfe", "abcdef") < 1


def test_kendall_tau_is_scipys() -> None:
    from scipy import stats  # takes 1 s, which each process would spend while it collects the tests

    generator = random.Random(2)
    for _ in range(200):
        a, b = orders(generator)
        common = [one for one in a if one in b]
        expected = None
        if len(common) > 1:
            expected = pytest.approx(stats.kendalltau(range(len(common)), [b.index(one) for one in common]).statistic)
        assert kendall_tau(a, b) == expected


def test_overlap_and_rank_changes() -> None:
    assert overlap_at("abcd", "cdxy", 2) == 0.0
    assert overlap_at("abcd", "bayx", 2) == 1.0
    assert overlap_at("ab", "ab", 10) == 1.0  # two candidates are all there are
    assert overlap_at("ab", "abcdefghij", 10) == 0.2
    assert mean_rank_change("abc", "cba") == pytest.approx(4 / 3)
    assert mean_rank_change("a", "b") is None
