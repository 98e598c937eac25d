"""Queries with candidates: which are accepted, which are rejected, and the wording of the reason."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.corpus.candidates import Candidate, check_candidates, payload, read_payload
from jobs.documents import MAX_ID_BYTES, Reject

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
CANDIDATES = st.lists(
    st.builds(Candidate, TEXT.filter(bool), TEXT, st.none() | st.floats(allow_nan=False, allow_infinity=False)),
    min_size=1,
    max_size=6,
    unique_by=lambda one: one.id,
)


def rejected(query: object, candidates: object) -> tuple[Reject, str]:
    found = check_candidates(query, candidates)
    assert isinstance(found, tuple), found
    assert found[1].isprintable()
    return found


def bad_candidate(**values: Any) -> str:
    sound = {"id": "a", "text": "x"}
    code, reason = rejected("q", [sound, {"id": "b", "text": "y"} | values])
    assert code is Reject.BAD_CANDIDATE
    assert reason.startswith("candidate 2 of 2: ")
    return reason.removeprefix("candidate 2 of 2: ")


@given(TEXT, CANDIDATES)
def test_accepted_candidates_keep_their_order(query: str, candidates: list[Candidate]) -> None:
    line = [{"id": one.id, "text": one.text, "score": one.score} for one in candidates]

    found = check_candidates(query, line)

    assert isinstance(found, str)
    assert read_payload(found) == (query, candidates)


def test_a_payload_is_the_query_and_its_candidates() -> None:
    found = check_candidates("why?", [{"id": 7, "text": "x", "score": 2, "title": "t"}, {"id": "b", "text": ""}])

    assert found == '{"query":"why?","candidates":[{"id":"7","text":"x","score":2.0},{"id":"b","text":""}]}'


def test_a_candidate_that_is_a_text_has_its_place_as_id() -> None:
    found = check_candidates("why?", ["x", {"id": 7.0, "text": "y"}, ""])

    assert isinstance(found, str)
    assert [(one.id, one.text) for one in read_payload(found)[1]] == [("1", "x"), ("7", "y"), ("3", "")]


def test_a_candidate_that_the_corpus_lacks_has_no_text() -> None:
    assert read_payload(payload("q", [Candidate("a", None, 1.0)])) == ("q", [Candidate("a", None, 1.0)])


@pytest.mark.parametrize(
    ("candidates", "why"),
    [
        (None, "the query has no candidates"),
        ([], "the list of candidates is empty"),
        ({"a": "x"}, "the candidates are an object, not a list"),
        ("x", "the candidates are a string, not a list"),
    ],
)
def test_a_query_without_candidates_is_rejected(candidates: object, why: str) -> None:
    code, reason = rejected("q", candidates)

    assert code is Reject.NO_CANDIDATES
    assert reason.startswith(why)


@pytest.mark.parametrize(
    ("query", "why"), [(None, "there is no query"), (3, "the query is a number"), (["x"], "the query is a list")]
)
def test_a_line_without_a_query_is_rejected(query: object, why: str) -> None:
    code, reason = rejected(query, [{"id": "a", "text": "x"}])

    assert code is Reject.NO_QUERY
    assert reason.startswith(why)


@pytest.mark.parametrize("ids", [("d1", "d1"), (1, "1")])
def test_two_candidates_with_one_id_are_rejected_and_the_id_is_named(ids: tuple[object, object]) -> None:
    code, reason = rejected("q", [{"id": ids[0], "text": "x"}, {"id": "z", "text": "x"}, {"id": ids[1], "text": "y"}])

    assert code is Reject.DUPLICATE_CANDIDATE
    assert repr(str(ids[0])) in reason


def test_the_reason_names_the_candidate_and_its_error() -> None:
    assert bad_candidate(id=None).startswith("it has no id")
    assert bad_candidate(id="").startswith("it has no id")
    assert bad_candidate(id=1.5).startswith("its id is a number")
    assert bad_candidate(id=True).startswith("its id is a boolean")
    assert bad_candidate(id=[]).startswith("its id is a list")
    assert "longer than" in bad_candidate(id="é" * MAX_ID_BYTES)
    assert bad_candidate(text=None).startswith("'b' has no text")
    assert bad_candidate(text=3).startswith("'b' has a text that is a number")
    assert bad_candidate(score="high").startswith("the score of 'b' is a string")
    assert bad_candidate(score=True).startswith("the score of 'b' is a boolean")
    for score in (float("nan"), float("inf"), 10**400):
        assert bad_candidate(score=score).startswith("the score of 'b' is too large or not a number")
    assert rejected("q", [["x"]])[1].startswith("candidate 1 of 1: it is a list, not an object")


def test_integers_that_are_given_as_text_are_exact() -> None:
    """The reader of JSON Lines gives integers of more than 64 bits as text."""
    digits = orjson.Fragment("123456789012345678901234567890")

    found = check_candidates("q", [{"id": digits, "text": "x", "score": digits}])

    assert isinstance(found, str)
    assert read_payload(found)[1] == [
        Candidate("123456789012345678901234567890", "x", 123456789012345678901234567890.0)
    ]
