"""The export of scores and rankings: records, tables, totals, runs, measures."""

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from jobs.outcome import Flag, RankedCandidate, Ranking, Score, TokenScore
from jobs.store.schema.states import DocumentStatus
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, Line

BROKEN = {"status": DocumentStatus.FAILED, "error": ("engine-error", "it broke")}
TOKENS = (TokenScore("It", 0, 2, None), TokenScore(" rains", 2, 8, -6.0))


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def score_job(add_job: AddJob) -> int:
    """Five documents: fluent, extremely improbable, without scored tokens, failed, rejected."""
    return add_job(
        Line("good", result=Score(6.0, 3, 2, 12, tokens=TOKENS), fields={"lang": "en"}),
        Line("bad", result=Score(9e5, 1, 1, 1, flags=(Flag.TRUNCATED,)), fields={"lang": "en", "tokens": 1}),
        Line("none", result=Score(0.0, 0, 0, 0, flags=(Flag.UNSCORED,)), fields={"lang": "fr"}),
        Line("broken", **BROKEN),
        Line(None, status=DocumentStatus.REJECTED, text=None, error=("bad-json", "no JSON")),
        task=Task.SCORE,
        options=ScoreOptions(token_scores=True),
    )


@pytest.fixture
def rank_job(add_job: AddJob) -> int:
    """Four queries: two ranked, one failed, one rejected."""

    def payload(*ids: str) -> str:
        return json.dumps({"query": "q", "candidates": [{"id": one, "text": "t", "score": 1.0} for one in ids]})

    best = (RankedCandidate("b", 1, -0.5, 1.0), RankedCandidate("a", 2, -1.5, 1.0))
    kept = RankedCandidate("c", 1, None, None, error="no text")
    return add_job(
        Line("q1", text=payload("a", "b"), result=Ranking(best, 7, 20, 4), fields={"set": "dev"}),
        Line("q2", text=payload("c"), result=Ranking((kept,), 0, 0, 0, flags=(Flag.KEPT_ORDER,))),
        Line("q3", text=payload("d", "e"), **BROKEN),
        Line("q4", status=DocumentStatus.REJECTED, text=None, error=("no-candidates", "it has none")),
        task=Task.RERANK,
        options=RerankOptions(),
    )


# scores ---------------------------------------------------------------------------------------------------------------


def test_a_score_record_has_the_sums_and_the_measures_derived_from_them(kvjobs: Kvjobs, score_job: int) -> None:
    good, bad, none, broken, rejected = records(kvjobs("export", score_job).out)

    assert list(good) == ["id", "status", "score", "tokens", "lang"]
    assert good["score"] == pytest.approx(
        {
            "nll_sum": 6.0,
            "num_tokens": 3,
            "num_words": 2,
            "num_bytes": 12,
            "perplexity": math.exp(2),
            "word_perplexity": math.exp(3),
            "byte_perplexity": math.exp(0.5),
            "bits_per_byte": 0.5 / math.log(2),
        },
        rel=1e-12,
    )
    assert good["tokens"][1] == {"text": " rains", "start": 2, "stop": 8, "log_prob": -6.0}
    assert (bad["score"]["perplexity"], bad["flags"], bad["fields"]) == (None, ["truncated"], {"tokens": 1})
    assert {none["score"][name] for name in ("perplexity", "word_perplexity", "bits_per_byte")} == {None}
    assert (broken["score"], broken["error"]["code"]) == (None, "engine-error")
    assert (rejected["status"], rejected["score"]) == ("rejected", None)


def test_a_table_has_a_column_for_each_part_of_a_score(kvjobs: Kvjobs, score_job: int) -> None:
    rows = table(kvjobs("export", score_job, "--format", "csv").out)

    assert list(rows[0])[:6] == ["id", "status", "nll_sum", "num_tokens", "num_words", "num_bytes"]
    assert float(rows[0]["perplexity"]) == math.exp(2)
    assert (rows[1]["perplexity"], rows[1]["flags"], rows[2]["perplexity"]) == ("inf", "truncated", "")
    assert json.loads(rows[0]["tokens"])[0]["log_prob"] is None
    assert [row["error_code"] for row in rows] == ["", "", "", "engine-error", "bad-json"]


@ON_BOTH
def test_a_filter_keeps_the_documents_that_match(kvjobs: Kvjobs, score_job: int) -> None:
    def ids(where: str) -> list[str]:
        return [record["id"] for record in records(kvjobs("export", "last", "--where", where).out)]

    assert ids("perplexity < 50") == ["good"]
    assert ids("perplexity > 50") == ["bad"]
    assert ids("num_tokens = 0 or json_extract(fields, '$.lang') = 'en'") == ["good", "bad", "none"]


def test_options_of_another_task_are_refused(kvjobs: Kvjobs, score_job: int) -> None:
    for arguments in (("--with", "log_prob"), ("--format", "trec"), ("--format", "cohere", "--with", "text")):
        refused = kvjobs("export", score_job, *arguments)
        assert (refused.exit_code, refused.out) == (2, "")
    assert kvjobs("metrics", score_job, "--qrels", "x").exit_code == 2


@ON_BOTH
def test_totals_are_calculated_from_the_sums(kvjobs: Kvjobs, score_job: int) -> None:
    (whole,) = kvjobs("totals", score_job, "--json").json
    by_language = table(kvjobs("totals", score_job, "--by", "lang", "--csv").out)

    assert (whole["documents"], whole["unscored"], whole["num_tokens"]) == (2, 1, 4)
    assert whole["nll_sum"] == 900_006.0
    assert whole["perplexity"] is None  # infinite, which JSON cannot represent
    assert [(row["group"], row["documents"], row["unscored"]) for row in by_language] == [
        ("en", "2", "0"),
        ("fr", "0", "1"),
    ]
    assert by_language[1]["perplexity"] == ""
    assert "PERPLEXITY" in kvjobs("totals", score_job).out


def test_totals_are_refused_for_rankings(kvjobs: Kvjobs, rank_job: int, score_job: int) -> None:
    refused = kvjobs("totals", rank_job)

    assert refused.exit_code == 2
    assert "task is rerank" in refused.err
    assert kvjobs("totals", score_job, "--by", 'a"b').exit_code == 2


def test_show_uses_the_terms_of_the_task(kvjobs: Kvjobs, score_job: int, rank_job: int) -> None:
    scores, rankings = kvjobs("show", score_job).out, kvjobs("show", rank_job).out

    assert "task       score\n" in scores
    assert " scored" in scores
    assert line_with(rankings, "documents ", "2 of 4 ", "1 failed", "1 rejected")
    assert "through the model" in rankings


# rankings -------------------------------------------------------------------------------------------------------------


def test_a_ranking_record_lists_the_candidates_best_first(kvjobs: Kvjobs, rank_job: int) -> None:
    first, second, third, fourth = records(kvjobs("export", rank_job, "--with", "tokens").out)

    assert first["ranking"] == [
        {"id": "b", "rank": 1, "score": -0.5, "first_score": 1.0},
        {"id": "a", "rank": 2, "score": -1.5, "first_score": 1.0},
    ]
    assert (first["num_tokens"], first["num_computed"], first["num_shared"], first["set"]) == (7, 20, 4, "dev")
    assert second["ranking"] == [{"id": "c", "rank": 1, "score": None, "error": "no text"}]
    assert second["flags"] == ["kept-order"]
    assert third["ranking"] is fourth["ranking"] is None


def test_a_table_has_one_row_per_candidate(kvjobs: Kvjobs, rank_job: int) -> None:
    rows = table(kvjobs("export", rank_job, "--format", "csv").out)

    assert [(row["id"], row["candidate"], row["rank"], row["candidate_error"]) for row in rows] == [
        ("q1", "b", "1", ""),
        ("q1", "a", "2", ""),
        ("q2", "c", "1", "no text"),
        ("q3", "", "", ""),
        ("q4", "", "", ""),
    ]


def test_the_text_of_a_query_is_exported_as_an_object(kvjobs: Kvjobs, rank_job: int) -> None:
    first = records(kvjobs("export", rank_job, "--with", "text").out)[0]

    assert [one["id"] for one in first["text"]["candidates"]] == ["a", "b"]


def test_a_run_contains_every_readable_query(kvjobs: Kvjobs, rank_job: int) -> None:
    lines = [line.split() for line in kvjobs("export", rank_job, "--format", "trec").out.splitlines()]

    assert [(query, candidate, rank) for query, _, candidate, rank, *_ in lines] == [
        ("q1", "b", "1"),
        ("q1", "a", "2"),
        ("q2", "c", "1"),
        ("q3", "d", "1"),  # failed: in the original order
        ("q3", "e", "2"),
    ]
    assert lines[0][1::4] == ["Q0", "kvjobs-opus-mt-en-zh"]


def test_cohere_results_give_the_index_in_the_submitted_list(kvjobs: Kvjobs, rank_job: int) -> None:
    first = records(kvjobs("export", rank_job, "--format", "cohere").out)[0]

    assert [one["index"] for one in first["results"]] == [1, 0]


def test_measures_are_given_before_and_after_reranking(kvjobs: Kvjobs, rank_job: int, tmp_path: Path) -> None:
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("q1 0 b 1\nq3 0 d 1\nq9 0 x 1\n")

    measured = kvjobs("metrics", rank_job, "--qrels", qrels, "--measure", "RR@10", "--json").json

    assert measured == [
        {
            "measure": "RR@10",
            "before": pytest.approx((0.5 + 1) / 2),
            "after": pytest.approx((1 + 1) / 2),
            "gain": pytest.approx(0.5 / 2),
            "ranked_queries": 2,
            "judged_queries": 3,
        }
    ]
    assert line_with(kvjobs("metrics", rank_job, "--qrels", qrels).err, "2 of 3 ", "judged")
