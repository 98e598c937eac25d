"""/compare: what it says of two jobs, how it reads a part of large ones, and what it refuses."""

import json

import pytest
from starlette.testclient import TestClient

from jobs.outcome import RankedCandidate, Ranking, Score
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.web.pages import compare
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, Line


@pytest.fixture
def translations(add_job: AddJob) -> tuple[int, int]:
    a = add_job(Line("x", "same"), Line("y/1?", "one two", fields={"ref": "one 2"}), name="before")
    b = add_job(Line("x", "same"), Line("y/1?", "one 2"), name="after")
    return a, b


@ON_BOTH
def test_translations_are_shown_with_the_words_that_differ(client: TestClient, translations: tuple[int, int]) -> None:
    page = client.get("/compare?a=1&b=2").text

    assert line_with(page, "1 of 2 ", "50.0 %")
    assert "one <del>two</del>" in page
    assert "one <ins>2</ins>" in page
    assert 'href="/jobs/1/documents/y%2F1%3F"' in page
    assert "kvjobs compare 1 2" in page
    assert "This page has read the first" not in page


def test_the_twin_in_json_is_that_of_the_command_line(client: TestClient, translations: tuple[int, int]) -> None:
    found = client.get("/compare.json?a=before&b=after").json()

    assert (found["a"]["job_id"], found["b"]["job_id"]) == (1, 2)
    assert found["coverage"]["sentence"] == "2 documents matched by id; 0 only in A, 0 only in B."
    assert [one["id"] for one in found["largest"]] == ["y/1?"]


def test_without_jobs_there_is_a_form_and_a_chosen_job_offers_those_of_its_task(
    client: TestClient, translations: tuple[int, int], add_job: AddJob
) -> None:
    add_job(Line("s", result=Score(6.0, 3, 2, 12)), name="a score", task=Task.SCORE, options=ScoreOptions())

    assert "a score" in client.get("/compare").text
    chosen = client.get("/compare?a=1").text
    assert '<option value="1" selected>' in chosen
    assert "a score" not in chosen
    assert client.get("/compare?a=nobody").status_code == 200


def test_the_list_of_jobs_leads_to_a_comparison(client: TestClient, translations: tuple[int, int]) -> None:
    page = client.get("/jobs").text

    assert 'formaction="/compare"' in page
    for job_id in translations:
        assert f'<input type="checkbox" name="job" value="{job_id}"' in page
    assert 'href="/compare?a=1"' in client.get("/jobs/1").text


def test_a_page_reads_a_part_of_large_jobs_and_gives_the_command_for_all(
    client: TestClient, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "QUICK_S", 0.0)
    monkeypatch.setattr(compare, "QUICK_PAGE", 2)
    lines = [Line(f"d{number}", str(number)) for number in range(5)]
    for _ in "ab":
        add_job(*lines)

    page = client.get("/compare?a=1&b=2").text
    assert line_with(page, "<strong>2</strong>", "5 documents", "A")
    assert 'href="/compare?a=1&amp;b=2&amp;longer=true"' in page

    coverage = client.get("/compare.json?a=1&b=2").json()["coverage"]
    assert (coverage["is_complete"], coverage["read"], coverage["only_b"]) == (False, 2, None)
    assert client.get("/compare.json?a=1&b=2&longer=true").json()["coverage"]["is_complete"]


def test_no_page_reads_more_documents_than_its_limit(
    client: TestClient, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "MAX_DOCUMENTS", 3)
    lines = [Line(f"d{number}", str(number)) for number in range(5)]
    for _ in "ab":
        add_job(*lines)

    assert client.get("/compare.json?a=1&b=2&longer=true").json()["coverage"]["read"] == 3


def test_scores_of_two_vocabularies_are_compared_per_byte(client: TestClient, add_job: AddJob) -> None:
    for tokens in (3, 5):
        add_job(Line("s", result=Score(6.0 + tokens, tokens, 2, 12)), task=Task.SCORE, options=ScoreOptions())

    page = client.get("/compare?a=1&b=2").text
    assert line_with(page, "perplexity per token", "bits per byte")
    assert "Perplexity</span>" not in page
    assert 'id="distribution"' in page


def test_rankings_show_who_moved(client: TestClient, add_job: AddJob) -> None:
    for order in ("abc", "cab"):
        ranking = Ranking(tuple(RankedCandidate(one, at + 1, -at, None) for at, one in enumerate(order)), 5, 5, 0)
        text = json.dumps({"query": "what <is> it?", "candidates": [{"id": one, "text": f"<i>{one}"} for one in "abc"]})
        add_job(Line("q", text=text, result=ranking), task=Task.RERANK, options=RerankOptions())

    page = client.get("/compare?a=1&b=2").text
    assert "what &lt;is&gt; it?" in page
    assert "↑ 2" in page
    assert "↓ 1" in page
    assert page.count("&lt;i&gt;c") == 2, "on both sides stands what the candidate says"


def test_references_are_measured_and_only_fields_of_the_first_documents_are_asked(
    client: TestClient, translations: tuple[int, int]
) -> None:
    page = client.get("/compare?a=1&b=2&reference=ref").text
    assert "chrF2" in page
    assert "significant" in page  # the way to a test

    refused = client.get("/compare?a=1&b=2&reference=nothing")
    assert refused.status_code == 400
    assert line_with(refused.text, "no field", "&#39;nothing&#39;")


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ("a=1&b=1", 400, "is compared with itself"),
        ("a=1&b=3", 400, "only jobs of the same task"),
        ("a=1&b=99", 404, "is no job"),
        ("a=1&b=4", 400, "has no result yet"),
    ],
)
def test_what_cannot_be_compared_is_said_beside_the_form(
    client: TestClient, translations: tuple[int, int], add_job: AddJob, query: str, code: int, reason: str
) -> None:
    add_job(Line("s", result=Score(6.0, 3, 2, 12)), task=Task.SCORE, options=ScoreOptions())
    add_job(Line("waits"))

    page = client.get(f"/compare?{query}")
    assert page.status_code == code
    assert reason in page.text
    assert '<select name="a"' in page.text
    as_json = client.get(f"/compare.json?{query}")
    assert as_json.status_code == code
    assert reason in as_json.json()["error"]


def test_texts_of_documents_are_shown_and_do_nothing_else(client: TestClient, add_job: AddJob) -> None:
    hostile = "<script>alert(1)</script> \u202e\x1b[31m"
    add_job(Line(f"<b>{hostile}", f"{hostile} one", text=hostile), source=hostile)
    add_job(Line(f"<b>{hostile}", f"{hostile} two", text=hostile), source=hostile)

    page = client.get("/compare?a=1&b=2").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in page
    assert "\x1b" not in page
