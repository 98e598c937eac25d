"""The order of candidates: scores, ties, fusion, and candidates that cannot be scored."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.outcome import RankedCandidate
from jobs.ranking import NO_FIRST_SCORE, NO_TEXT, NON_FINITE, NOT_IN_CORPUS, Judged, rank, scaled, unranked

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY = st.none() | st.floats()


def ids(ranked: tuple[RankedCandidate, ...]) -> list[str]:
    assert [one.rank for one in ranked] == list(range(1, len(ranked) + 1))
    return [one.id for one in ranked]


def judged(*scores: float | None, first: tuple[float | None, ...] | None = None) -> list[Judged]:
    first = first or (None,) * len(scores)
    return [
        Judged(name, score, one, None if score is not None else "too odd")
        for name, score, one in zip("abcdefgh", scores, first, strict=False)
    ]


def test_the_higher_score_comes_first() -> None:
    assert ids(rank(judged(-3.0, -1.0, -2.0))) == ["b", "c", "a"]
    assert [one.score for one in rank(judged(-3.0, -1.0, -2.0))] == [-1.0, -2.0, -3.0]


def test_equal_scores_keep_the_order_of_the_first_stage_whatever_their_ids() -> None:
    for order in itertools.permutations(judged(-1.0, -1.0, -1.0, -0.5)):
        assert ids(rank(order)) == ["d", *(one.id for one in order if one.id != "d")]


@pytest.mark.parametrize("reason", [NO_TEXT, NOT_IN_CORPUS])
def test_a_candidate_without_a_text_goes_last(reason: str) -> None:
    empty, *others = judged(None, -3.0, None, -1.0)

    assert ids(rank([replace(empty, error=reason), *others])) == ["d", "c", "b", "a"], "c keeps its rank among them"
    assert ids(rank([replace(empty, error=reason), replace(others[1], error=reason)])) == ["a", "c"]


def test_a_candidate_that_cannot_be_scored_keeps_its_rank_and_has_the_reason() -> None:
    ranked = rank(judged(-3.0, None, -1.0, None, -2.0))

    assert ids(ranked) == ["c", "b", "e", "d", "a"]
    assert [one.error for one in ranked] == [None, "too odd", None, "too odd", None]
    assert [one.score for one in ranked] == [-1.0, None, -2.0, None, -3.0]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_candidate_with_a_non_finite_score_keeps_its_rank(score: float) -> None:
    ranked = rank(judged(-3.0, score, -1.0))

    assert ids(ranked) == ["c", "b", "a"]
    assert ranked[1] == RankedCandidate("b", 2, None, None, NON_FINITE)


def test_a_query_without_scores_keeps_its_order() -> None:
    assert ids(rank(judged(None, None, None))) == ["a", "b", "c"]
    assert unranked([("z", 2.0), ("a", None)], "no query") == (
        RankedCandidate("z", 1, None, 2.0, "no query"),
        RankedCandidate("a", 2, None, None, "no query"),
    )
    assert rank([]) == ()


def test_fusion_is_the_weighted_sum_of_both_scores_scaled_over_the_candidates() -> None:
    ranked = rank(judged(-4.0, -2.0, -3.0, first=(30.0, 10.0, 20.0)), fusion=0.25)

    # Scaled scores of a, b, c: 0, 1, 0.5 of the model, and 1, 0, 0.5 of the first stage.
    assert [(one.id, one.score, one.first_score) for one in ranked] == [
        ("b", pytest.approx(0.75), 10.0),
        ("c", pytest.approx(0.5), 20.0),
        ("a", pytest.approx(0.25), 30.0),
    ]


def test_fusion_one_gives_the_order_of_the_first_stage_and_fusion_zero_that_of_the_model() -> None:
    both = judged(-4.0, -2.0, -3.0, first=(30.0, 10.0, 20.0))

    assert ids(rank(both, fusion=1.0)) == ["a", "c", "b"]
    assert ids(rank(both, fusion=0.0)) == ids(rank(both, fusion=1e-9)) == ["b", "c", "a"]


def test_a_candidate_without_a_first_stage_score_cannot_be_fused_and_keeps_its_rank() -> None:
    ranked = rank(judged(-4.0, -1.0, -3.0, first=(10.0, None, 20.0)), fusion=0.5)

    assert ids(ranked) == ["c", "b", "a"]
    assert ranked[1].error == NO_FIRST_SCORE
    assert [one.score for one in ranked] == [1.0, None, 0.0], "scaled over the candidates that have both scores"
    assert ids(rank(judged(-4.0, -1.0, -3.0, first=(10.0, None, 20.0)))) == ["b", "c", "a"], "fusion 0 needs none"


def test_scores_that_are_all_equal_do_not_affect_the_order() -> None:
    assert scaled([7.0, 7.0]) == [0.0, 0.0]
    assert scaled([7.0]) == [0.0]
    assert ids(rank(judged(-1.0, -1.0, -1.0, first=(1.0, 3.0, 2.0)), fusion=0.1)) == ["b", "c", "a"]


@given(st.lists(FINITE, min_size=1))
def test_scaled_values_lie_between_zero_and_one_and_keep_their_order(values: list[float]) -> None:
    found = scaled(values)

    assert all(0 <= value <= 1 for value in found)
    assert all(found[i] <= found[j] for i, j in itertools.permutations(range(len(values)), 2) if values[i] < values[j])


@given(st.lists(st.tuples(ANY, ANY), max_size=12), st.sampled_from([0.0, 0.3, 1.0]))
def test_for_any_scores_each_candidate_is_ranked_once_and_unscored_ones_keep_their_ranks(
    scores: list[tuple[float | None, float | None]], fusion: float
) -> None:
    candidates = [Judged(f"{index:02}", score, first) for index, (score, first) in enumerate(scores)]

    ranked = rank(candidates, fusion)

    assert sorted(ids(ranked)) == [one.id for one in candidates]
    with_score = [one.score for one in ranked if one.score is not None]
    assert all(map(math.isfinite, with_score))
    assert with_score == sorted(with_score, reverse=True)
    for one in ranked:
        assert (one.score is None) == (one.error is not None)
        if one.score is None:
            assert candidates[one.rank - 1].id == one.id
