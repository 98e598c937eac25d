"""Measures of rankings, compared with values calculated by hand."""

import builtins
import math
from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.retrieval.metrics import MEASURES, Measured, compare, evaluate

QRELS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"d": 1}}


def test_the_measures_equal_those_calculated_by_hand() -> None:
    found = evaluate(QRELS, {"q1": ["c", "a", "x", "b"], "q2": ["d"]}, ["nDCG@10", "RR@10", "R@2", "R@10"])

    # q1: gains 0 2 0 1 at ranks 1 .. 4; the best order has 2 1.
    ndcg = (2 / math.log2(3) + 1 / math.log2(5)) / (2 / math.log2(2) + 1 / math.log2(3))
    assert found == {
        "nDCG@10": pytest.approx((ndcg + 1) / 2),
        "RR@10": pytest.approx((1 / 2 + 1) / 2),
        "R@2": pytest.approx((1 / 2 + 1) / 2),
        "R@10": 1.0,
    }


def test_documents_below_rank_ten_do_not_count() -> None:
    late = {"q2": [f"x{place}" for place in range(10)] + ["d"]}

    found = evaluate({"q2": QRELS["q2"]}, late)

    assert [found[measure] for measure in MEASURES] == [0.0, 0.0, 0.0, 1.0]


def test_judged_queries_without_a_ranking_are_left_out_and_an_empty_ranking_counts_as_zero() -> None:
    assert evaluate(QRELS, {"q2": ["d"], "q3": ["d"]}, ["nDCG@10"]) == {"nDCG@10": 1.0}
    assert evaluate(QRELS, {"q2": ["d"], "q3": ["d"], "q1": []}, ["nDCG@10"]) == {"nDCG@10": 0.5}  # q1: empty


def test_the_rankings_before_and_after_are_measured_in_the_same_way() -> None:
    before, after = {"q1": ["c", "b", "a"], "q2": ["x", "d"]}, {"q1": ["a", "b", "c"], "q2": ["d", "x"]}

    assert compare(QRELS, before, after, ["RR@10"]) == [Measured("RR@10", 0.5, 1.0)]
    assert [one.after for one in compare(QRELS, before, after)] == [1.0] * 4


def test_the_rank_decides_even_if_ids_would_break_a_tie_otherwise() -> None:
    for order in (["a", "z"], ["z", "a"]):
        assert evaluate({"q": {order[0]: 1}}, {"q": order}, ["RR@10", "nDCG@10"]) == {"RR@10": 1.0, "nDCG@10": 1.0}


@pytest.mark.parametrize("measure", ["foo@10", "nDCG@", "alpha_nDCG@10"])
def test_an_unknown_measure_is_refused_by_name(measure: str) -> None:
    with pytest.raises(SpecError, match=measure):
        evaluate(QRELS, {"q2": ["d"]}, [measure])


def test_judgements_of_another_corpus_are_refused() -> None:
    with pytest.raises(SpecError, match=r"none .*queries"):
        evaluate(QRELS, {"q7": ["d"]})


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "ir_measures":
            raise ImportError
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)

    with pytest.raises(SpecError, match="pip install 'ir-measures>="):
        evaluate(QRELS, {"q2": ["d"]})
