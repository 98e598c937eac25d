"""Measures of two jobs' rankings with intervals over queries."""

import random
import statistics

import pytest

from jobs.comparison.judged_rankings import ConfidenceInterval, JudgedRankings, bootstrap_mean
from jobs.errors import SpecError
from jobs.retrieval.metrics import by_query, evaluate

QRELS = {f"q{number}": {"a": 1} for number in range(40)}


def test_a_job_that_ranks_better_everywhere_is_significantly_better() -> None:
    judged = JudgedRankings(QRELS, ["RR@10"])
    for query in QRELS:
        judged.add(query, ["x", "a"], ["a", "x"])
    judged.add("unjudged", ["x"], ["x"])

    [found] = judged.result()
    assert (found.measure, found.queries) == ("RR@10", 40)
    assert (found.a.mean, found.b.mean, found.difference) == (0.5, 1.0, ConfidenceInterval(0.5, 0.5, 0.5))
    assert found.is_significant


def test_the_same_rankings_do_not_differ() -> None:
    judged = JudgedRankings(QRELS)
    for number, query in enumerate([*QRELS][:8]):
        order = ["a", "x"] if number % 3 else ["x", "a"]
        judged.add(query, order, order)

    found = judged.result()
    assert [one.measure for one in found] == ["nDCG@10", "RR@10", "R@10", "R@100"]
    assert all(one.difference == ConfidenceInterval(0.0, 0.0, 0.0) and not one.is_significant for one in found)


def test_the_interval_is_that_of_a_bootstrap_and_always_the_same() -> None:
    generator = random.Random(5)
    values = [generator.gauss(0.3, 0.2) for _ in range(100)]
    means = sorted(statistics.fmean(generator.choices(values, k=100)) for _ in range(4000))

    found = bootstrap_mean(values)
    assert found.mean == pytest.approx(statistics.fmean(values))
    assert (found.low, found.high) == (pytest.approx(means[100], abs=0.006), pytest.approx(means[3900], abs=0.006))
    assert bootstrap_mean(values) == found


def test_one_query_has_no_interval() -> None:
    assert bootstrap_mean([0.5]) == ConfidenceInterval(0.5, None, None)


def test_judgements_of_another_corpus_are_refused() -> None:
    judged = JudgedRankings(QRELS)
    judged.add("other", ["a"], ["a"])

    with pytest.raises(SpecError, match=r"no query .*judgements"):
        judged.result()


def test_the_values_of_the_queries_have_the_mean_of_the_corpus() -> None:
    qrels = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"d": 1}}
    orders = {"q1": ["c", "a", "x", "b"], "q2": ["d"]}

    for measure, values in by_query(qrels, orders).items():
        assert statistics.fmean(values.values()) == pytest.approx(evaluate(qrels, orders, [measure])[measure])
