"""Rankings exported as a TREC run and in the response format of Cohere's rerank API."""

import json
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.corpus.candidates import Candidate, payload
from jobs.errors import SpecError
from jobs.outcome import RankedCandidate
from jobs.ranking import Judged, rank
from jobs.retrieval.ranking_formats import CohereLines, RankedQuery, TrecRun, falling

PAYLOAD = payload("why?", [Candidate("d1", "x", 3.0), Candidate("d2", "y", None), Candidate("d3", None, 1.0)])
RANKING = json.dumps(
    [
        {"id": "d2", "rank": 1, "score": -1.25},
        {"id": "d1", "rank": 2, "score": -2.5, "first_score": 3.0},
        {"id": "d3", "rank": 3, "score": None, "first_score": 1.0, "error": "no text"},
    ]
)


def query(*, ranking: str | None = RANKING, error: str | None = None, numeric: bool = False) -> RankedQuery:
    return RankedQuery.restore("7", payload=PAYLOAD, ranking=ranking, error=error, has_numeric_id=numeric)


def ranked(*scores: float | None) -> tuple[RankedCandidate, ...]:
    """Candidates d1, d2, ... with these scores, ranked in the order given."""
    return tuple(RankedCandidate(f"d{place}", place, score, None) for place, score in enumerate(scores, 1))


def test_a_run_has_one_line_per_candidate() -> None:
    assert TrecRun("my job").line(query()) == (
        b"7 Q0 d2 1 -1.25 my-job\n7 Q0 d1 2 -2.5 my-job\n7 Q0 d3 3 -2.50000095 my-job\n"
    )


def test_the_candidates_of_an_unranked_query_keep_their_order_in_a_run() -> None:
    assert TrecRun("t").line(query(ranking=None, error="killed")) == b"7 Q0 d1 1 -1 t\n7 Q0 d2 2 -2 t\n7 Q0 d3 3 -3 t\n"


def test_a_rejected_line_has_no_candidates_in_either_format() -> None:
    nothing = RankedQuery.restore("7", payload=None, ranking=None, error="no candidates")

    assert TrecRun("t").line(nothing) == b""
    assert json.loads(CohereLines().line(nothing)) == {"id": "7", "results": []}


@pytest.mark.parametrize(
    "scores",
    [(-1.0, -1.0, -1.0), (None, -1.0, None, -1.0), (0.0, 0.0, 0.0), (None, None), (1e9, 1e9), (-1.0, -1.0 - 1e-9)],
)
def test_written_scores_fall_strictly_even_across_ties_and_missing_scores(scores: tuple[float | None, ...]) -> None:
    written = falling(ranked(*scores))

    assert all(one > other for one, other in pairwise(written))


@given(st.lists(st.none() | st.sampled_from([-0.5, -1.0, 0.0]) | st.floats(-60, 1), min_size=1, max_size=40))
def test_sorting_a_run_by_its_scores_gives_the_order_of_kvjobs(scores: list[float | None]) -> None:
    """trec_eval sorts so: by score in float32, and equal scores by descending id."""
    candidates = rank([Judged(f"d{place:02}", score, None) for place, score in enumerate(scores)])

    lines = [line.split() for line in TrecRun("t").line(RankedQuery("q", candidates, [])).decode().splitlines()]

    stored = {line[2]: struct.unpack("f", struct.pack("f", float(line[4])))[0] for line in lines}
    assert sorted(stored, key=lambda one: (stored[one], one), reverse=True) == [one.id for one in candidates]
    assert [int(line[3]) for line in lines] == list(range(1, len(lines) + 1))
    for one in candidates:
        if one.score is not None:
            assert stored[one.id] == pytest.approx(one.score, abs=1e-3), "breaking ties changes a score only slightly"


def test_a_score_without_a_tie_is_written_unchanged() -> None:
    assert falling(ranked(-0.5, -1.25, -60.0)) == [-0.5, -1.25, -60.0]


@pytest.mark.parametrize("bad_id", ["a b", "a\n1 Q0 b", "a\u00a0b", ""])
def test_an_id_that_would_break_the_columns_is_refused(bad_id: str) -> None:
    with pytest.raises(SpecError, match="export as jsonl"):
        TrecRun("t").line(RankedQuery("q", [RankedCandidate(bad_id, 1, -1.0, None)], [bad_id]))
    with pytest.raises(SpecError, match="the query id"):
        TrecRun("t").line(RankedQuery(bad_id, [], []))


def test_cohere_results_give_the_index_in_the_submitted_list() -> None:
    assert json.loads(CohereLines().line(query())) == {
        "id": "7",
        "results": [
            {"index": 1, "relevance_score": -1.25, "document": {"id": "d2"}},
            {"index": 0, "relevance_score": -2.5, "document": {"id": "d1"}},
            {"index": 2, "relevance_score": None, "document": {"id": "d3"}, "error": "no text"},
        ],
    }
    assert CohereLines().line(query(numeric=True)).startswith(b'{"id":7,')
    kept = json.loads(CohereLines().line(query(ranking=None, error="killed")))["results"]
    assert [(one["index"], one["error"]) for one in kept] == [(0, "killed"), (1, "killed"), (2, "killed")]


def test_neither_format_has_a_header() -> None:
    assert TrecRun("t").head() == CohereLines().head() == b""
