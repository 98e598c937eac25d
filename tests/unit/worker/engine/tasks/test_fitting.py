"""The hypotheses of each sentence that fit into a length, against all choices."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.tasks import fitting
from worker.engine.tasks.fitting import best_within, shortest

SENTENCES = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.integers(-8, 0).map(float)), min_size=1, max_size=3),
    min_size=1,
    max_size=4,
)


@given(sentences=SENTENCES, room=st.integers(-1, 40))
def test_the_choice_has_the_highest_sum_of_scores_among_all_that_fit(
    sentences: list[list[tuple[int, float]]], room: int
) -> None:
    lengths = [[length for length, _ in some] for some in sentences]
    scores = [[score for _, score in some] for some in sentences]
    sums = [
        sum(score for _, score in choice)
        for choice in itertools.product(*sentences)
        if sum(length for length, _ in choice) <= room
    ]

    found = best_within(lengths, scores, room)

    if found is None:
        assert not sums
    else:
        chosen = [some[index] for some, index in zip(sentences, found, strict=True)]
        assert sum(length for length, _ in chosen) <= room
        assert sum(score for _, score in chosen) == max(sums)


def test_a_table_that_is_too_large_gives_a_choice_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "MOST_CELLS", 100)
    lengths, scores = [[31, 17, 9]] * 20, [[-0.1, -0.2, -0.9]] * 20

    found = best_within(lengths, scores, 400)

    assert found is not None
    assert sum(some[index] for some, index in zip(lengths, found, strict=True)) <= 400
    assert best_within(lengths, scores, 180) == shortest(lengths, scores) == [2] * 20
    assert best_within(lengths, scores, 179) is None
