"""Tokens by the colour of their probability, candidates by their moves, sentences in pairs."""

import itertools
import json
import math

import pytest

from jobs.web.document_view.aligned_text import aligned
from jobs.web.document_view.candidate_moves import moves_of
from jobs.web.document_view.token_colors import LEGEND, colored_tokens


@pytest.mark.parametrize(
    ("probability", "color"),
    [(1.0, "p9"), (0.91, "p9"), (0.89, "p8"), (0.4, "p6"), (0.02, "p2"), (0.002, "p1"), (1e-9, "p0")],
)
def test_what_the_model_did_not_expect_is_darker(probability: float, color: str) -> None:
    scores = [{"text": "a", "start": 0, "stop": 1, "log_prob": math.log(probability)}]

    assert colored_tokens(json.dumps(scores))[0].color == color


def test_a_token_without_a_score_has_no_colour() -> None:
    token = colored_tokens('[{"text": "a", "start": 0, "stop": 1, "log_prob": null}]')[0]

    assert (token.color, token.probability) == ("unscored", None)


def test_the_legend_covers_every_probability_once() -> None:
    assert [step.color for step in LEGEND] == [f"p{number}" for number in range(9, -1, -1)]
    assert LEGEND[0].high == 1
    assert LEGEND[-1].low == 0
    assert all(above.low == below.high for above, below in itertools.pairwise(LEGEND))


def test_a_candidate_moves_from_its_place_in_the_line() -> None:
    ranking = [
        {"id": "c", "rank": 1, "score": 1.0},
        {"id": "b", "rank": 2, "score": 0.5},
        {"id": "x", "rank": 3, "score": None},
    ]
    line = {"query": "q", "candidates": [{"id": "a", "text": "A"}, {"id": "b", "text": "B"}, {"id": "c", "text": None}]}

    moves = moves_of(json.dumps(ranking), json.dumps(line))

    assert [(one.direction, one.by, one.old_rank, one.text) for one in moves] == [
        ("up", 2, 3, None),
        ("same", 0, 2, "B"),
        ("same", 0, None, None),
    ]


def test_sentences_stand_beside_their_translations_and_nothing_is_left_out() -> None:
    source, target = "One. Two.\n\n42 Three.", "一。二。\n\n42 三。"
    found = aligned(source, target, "[[0,4,0,2],[5,9,2,4],[14,20,9,11]]", 1000)

    assert found is not None
    assert [(one.number, one.source, one.target) for one in found.pairs] == [
        (1, "One.", "一。"),
        (2, "Two.", "二。"),
        (None, "\n\n42 ", "\n\n42 "),
        (3, "Three.", "三。"),
    ]
    assert [one.begins_paragraph for one in found.pairs] == [False, False, True, False]


def test_a_long_text_is_cut_between_sentences() -> None:
    found = aligned("a" * 50, "b" * 50, "[[0,10,0,10],[10,20,10,20],[20,50,20,50]]", 45)

    assert found is not None
    assert (len(found.pairs), found.num_left_out) == (2, 1)


def test_the_text_in_the_middle_stands_between_the_two() -> None:
    found = aligned(
        "Du vent. 42 Soleil.", "Wind. 42 Sonne.", "[[0,8,0,5],[12,19,9,15]]", 1000, "Wind.  42 Sun.", "[[0,5],[10,14]]"
    )

    assert found is not None
    assert [(one.source, one.via, one.target) for one in found.pairs] == [
        ("Du vent.", "Wind.", "Wind."),
        (" 42 ", None, " 42 "),
        ("Soleil.", "Sun.", "Sonne."),
    ]


def test_without_stored_sentences_nothing_is_aligned() -> None:
    assert aligned("a", "b", None, 10) is None
