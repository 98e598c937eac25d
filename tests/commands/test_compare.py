"""`kvjobs compare`: what is said of two jobs, and which are refused."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.outcome import RankedCandidate, Ranking, Score, StepTiming
from jobs.store.database import Database
from jobs.store.schema.states import DocumentStatus
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.rows import AddJob, Line, add_timings

FAILED = Line("f", status=DocumentStatus.FAILED, error=("engine-error", "it broke"))


def scored(document_id: str, nll_sum: float, num_tokens: int = 10, num_bytes: int = 40) -> Line:
    return Line(document_id, result=Score(nll_sum=nll_sum, num_tokens=num_tokens, num_words=8, num_bytes=num_bytes))


def ranked(query_id: str, order: str) -> Line:
    candidates = tuple(RankedCandidate(one, place + 1, -float(place), None) for place, one in enumerate(order))
    payload = {"query": "what?", "candidates": [{"id": one, "text": one} for one in sorted(order)]}
    return Line(query_id, result=Ranking(candidates, 5, 5, 0), text=json.dumps(payload))


@pytest.fixture
def translations(add_job: AddJob) -> tuple[int, int]:
    """Of four documents one is the same, one differs in a word, one wholly; one failed in B."""
    a = add_job(Line("x", "甲乙丙"), Line("y", "one two"), Line("z", "red blue"), Line("f", "1"), name="before")
    b = add_job(Line("x", "甲乙丙"), Line("y", "one 2"), Line("z", "green"), FAILED, Line("new", "1"), name="after")
    return a, b


@pytest.fixture
def scores(add_job: AddJob) -> tuple[int, int]:
    a = add_job(scored("x", 20), scored("y", 30), task=Task.SCORE, options=ScoreOptions())
    b = add_job(scored("x", 22), scored("y", 29), task=Task.SCORE, options=ScoreOptions(max_length=9))
    return a, b


@pytest.fixture
def rankings(add_job: AddJob) -> tuple[int, int]:
    a = add_job(ranked("q1", "abc"), ranked("q2", "abc"), task=Task.RERANK, options=RerankOptions())
    b = add_job(ranked("q1", "abc"), ranked("q2", "cab"), task=Task.RERANK, options=RerankOptions())
    return a, b


def test_translations_are_counted_and_the_largest_difference_comes_first(
    kvjobs: Kvjobs, translations: tuple[int, int]
) -> None:
    result = kvjobs("compare", *translations)

    assert result.exit_code == 0
    assert line_with(result.out, "4 documents", "by id", "0 only", "1 only")
    assert line_with(result.out, "1 of 3 ", "33.3 %")
    assert line_with(result.out, "A alone", "1 matched")
    lines = result.out.splitlines()
    assert lines.index("  z  100.0 % of the words differ") < lines.index("  y  50.0 % of the words differ")
    assert "    A     one [-two-]" in lines
    assert "    B     one {+2+}" in lines


def test_json_has_everything(kvjobs: Kvjobs, translations: tuple[int, int]) -> None:
    found = kvjobs("compare", "before", "after", "--json").json

    assert (found["a"]["name"], found["b"]["name"]) == ("before", "after")
    assert found["coverage"] | {"sentence": ""} == {
        "matched_by": "id", "read": 4, "matched": 4, "compared": 3, "only_a_result": 1, "only_b_result": 0,
        "other_text": 0, "is_complete": True, "only_a": 0, "only_b": 1, "sentence": "",
    }  # fmt: skip
    assert (found["agreement"]["documents"], found["agreement"]["identical"]) == (3, 1)
    assert [one["id"] for one in found["largest"]] == ["z", "y"]
    assert found["largest"][0] == {
        "id": "z", "a_position": 2, "b_position": 2, "value": 1.0, "a": "red blue", "b": "green", "text": "a text"
    }  # fmt: skip
    assert found["speed"]["a_seconds"] == pytest.approx(100, abs=5)


def test_csv_is_the_differences_alone(kvjobs: Kvjobs, translations: tuple[int, int]) -> None:
    rows = list(csv.DictReader(io.StringIO(kvjobs("compare", *translations, "--csv").out)))
    assert [(row["id"], row["a"], row["b"]) for row in rows] == [("z", "red blue", "green"), ("y", "one two", "one 2")]

    assert len(kvjobs("compare", *translations, "--csv", "--limit", 1).out.splitlines()) == 2


def test_scores_shift_per_token_where_both_have_as_many(kvjobs: Kvjobs, scores: tuple[int, int]) -> None:
    result = kvjobs("compare", *scores)
    assert line_with(result.out, "+0.0500 nats", "2 documents")
    assert "  max length" in result.out  # the option that differs
    assert "  x  +0.200  A 2.00, B 2.20" in result.out

    found = kvjobs("compare", *scores, "--json").json
    assert found["agreement"]["unit"] == "nats per token"
    assert (found["agreement"]["lower"], found["agreement"]["higher"]) == (1, 1)
    assert found["agreement"]["a"]["perplexity"] == pytest.approx(12.182494)
    assert [one["value"] for one in found["largest"]] == [pytest.approx(0.2), pytest.approx(-0.1)]


def test_another_vocabulary_is_compared_per_byte_and_it_is_said(kvjobs: Kvjobs, add_job: AddJob) -> None:
    options: dict[str, Any] = {"task": Task.SCORE, "options": ScoreOptions()}
    a, b = add_job(scored("x", 20), **options), add_job(scored("x", 21, num_tokens=14), **options)

    result = kvjobs("compare", a, b)
    assert line_with(result.out, "bits per byte", "average")
    assert "Perplexity" not in result.out
    assert line_with(result.out, "perplexity per token", "bits per byte")


def test_rankings_are_compared_and_measured_with_intervals(
    kvjobs: Kvjobs, rankings: tuple[int, int], tmp_path: Path
) -> None:
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("q1 0 a 1\nq2 0 c 1\n")

    result = kvjobs("compare", *rankings, "--qrels", qrels, "--measure", "RR@10")
    assert result.exit_code == 0
    assert line_with(result.out, "1 of 2 ", "order", "1 ", "first candidate")
    assert line_with(result.out, "2 of 2 ", "judged")
    assert "  RR@10  0.667 (0.333 to 1.00)  1.00 (1.00 to 1.00)" in result.out
    assert "    A  a b c" in result.out

    [found] = kvjobs("compare", *rankings, "--qrels", qrels, "--measure", "RR@10", "--json").json["judged"]
    assert found["difference"]["mean"] == pytest.approx(1 / 3)
    assert found["is_significant"] is False


def test_references_are_measured_with_significance(kvjobs: Kvjobs, add_job: AddJob) -> None:
    texts = [f"the rain falls on hill number {number} near the old town" for number in range(20)]
    a = add_job(*(Line(f"d{n}", text.replace("rain", "snow"), fields={"ref": text}) for n, text in enumerate(texts)))
    b = add_job(*(Line(f"d{n}", text) for n, text in enumerate(texts)))

    found = kvjobs("compare", a, b, "--reference", "ref", "--json").json["reference_scores"]
    assert [(one["measure"], one["b"]) for one in found] == [
        ("chrF2", pytest.approx(100)),
        ("BLEU", pytest.approx(100)),
    ]
    assert all(one["difference"] > 5 and one["p_value"] < 0.05 and one["is_significant"] for one in found)
    shown = kvjobs("compare", a, b, "--reference", "ref").out
    assert line_with(shown, "P: ", "1,000 resamples", "20 documents")


def test_speed_is_by_phase_for_the_same_amount_of_text(
    kvjobs: Kvjobs, database: Database, translations: tuple[int, int]
) -> None:
    for job_id, phase, seconds in ((1, "decode", 4.0), (2, "decode", 2.5), (2, "encode", 1.0)):
        add_timings(database, job_id, [StepTiming(phase, 0, 3, 30, 0, seconds)])

    phases = {one["phase"]: one for one in kvjobs("compare", *translations, "--json").json["speed"]["phases"]}
    # A has 4 documents and B 5, of as many tokens each.
    assert phases["decode"]["times_as_fast"] == pytest.approx(4.0 / 2.5 * 5 / 4)
    assert (phases["encode"]["a_seconds"], phases["encode"]["times_as_fast"]) == (None, None)


def test_jobs_that_cannot_be_compared_are_refused_in_a_sentence(
    kvjobs: Kvjobs, translations: tuple[int, int], scores: tuple[int, int], rankings: tuple[int, int], add_job: AddJob
) -> None:
    waiting = add_job(Line("x"))
    pairs = add_job(scored("x", 20), task=Task.SCORE, options=ScoreOptions(pairs=True))
    for arguments, facts in (
        ((translations[0], scores[0]), ["job 1 (before)", "translate", "job 3 ", "score"]),
        ((translations[0], translations[0]), ["itself"]),
        ((translations[0], waiting), [f"job {waiting} ", "no result"]),
        ((scores[0], pairs), [f"job {pairs} ", "sources", f"job {scores[0]} ", "texts alone"]),
        ((*scores, "--reference", "ref"), ["reference field", "translate"]),
        ((*scores, "--qrels", "missing.txt"), ["missing.txt"]),
        ((*translations, "--reference", "ref"), ["no document", "'ref'"]),
    ):
        result = kvjobs("compare", *arguments)
        assert (result.exit_code, result.out) == (2, ""), arguments
        assert line_with(result.err, *facts)
        assert result.err.count("\n") <= 2  # a sentence, and at most a hint
    assert kvjobs("compare", 1, 99).exit_code == 5
    assert "give --qrels FILE" in kvjobs("compare", *translations, "--measure", "RR@10").err


def test_a_job_that_still_runs_is_compared_as_far_as_it_is(kvjobs: Kvjobs, running_job: int, finished_job: int) -> None:
    result = kvjobs("compare", running_job, finished_job)

    assert result.exit_code == 0
    assert line_with(result.out, "A ", "not ended", "1 document waiting")


def test_texts_of_documents_cannot_steer_the_terminal(kvjobs: Kvjobs, add_job: AddJob) -> None:
    a, b = add_job(Line("x", "one \x1b[31mtwo")), add_job(Line("x", "one \x1b[31m\u202ethree"))

    out = kvjobs("compare", a, b).out
    assert "\x1b" not in out
    assert "\u202e" not in out
