"""/jobs/N/documents: what the address asks for is listed, and the download and the command hold the same documents."""

import codecs
import csv
import io
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from jobs.outcome import RankedCandidate, Ranking, Score
from jobs.store.database import Database
from jobs.store.report.documents import document_pages
from jobs.store.schema import tables
from jobs.store.schema.results import RESULTS
from jobs.store.schema.states import DocumentStatus
from jobs.tasks.kind import Measure
from jobs.tasks.kinds import KINDS
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, Line

WORKER = Path(__file__).parents[3] / "worker"
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"


def found(client: TestClient, job_id: int, **asked: Any) -> dict[str, Any]:
    answer = client.get(f"/jobs/{job_id}/documents.json?{urlencode(asked)}")
    data: dict[str, Any] = answer.json()
    assert answer.status_code == (400 if data.get("problem") else 200)
    return data


def ids(data: dict[str, Any]) -> list[str]:
    return [one["id"] for one in data["documents"]]


@pytest.fixture
def some_job(add_job: AddJob) -> int:
    """Translations of several kinds, a failure, a rejected line."""
    return add_job(
        Line("a", "好", text="A Storm comes", log_prob=-1.0, fields={"lang": "en", "year": 2020}),
        Line("b", "storm", text="Regen", log_prob=-9.0, flags="truncated", fields={"lang": "de", "year": "2020"}),
        Line("c/d?", "雨", text=HOSTILE, log_prob=-20.0, fields={"lang": "de"}),
        Line("bad", status=DocumentStatus.FAILED, error=("engine-error", "it broke"), text="storm too"),
        Line(None, status=DocumentStatus.REJECTED, text=None, error=("bad-json", "line 5 is not JSON")),
    )


@ON_BOTH
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, ["a", "b", "c/d?", "bad", None]),
        ({"search": "STORM"}, ["a", "b", "bad"]),
        ({"search": "%"}, []),
        ({"status": "ok", "search": "storm"}, ["a", "b"]),
        ({"status": "failed"}, ["bad"]),
        ({"code": "bad-json"}, [None]),
        ({"flag": "truncated"}, ["b"]),
        ({"max_perplexity": "2"}, ["a"]),
        ({"min_perplexity": "2", "max_perplexity": "3"}, ["b"]),
        ({"min_length": "11"}, []),
        ({"field": "lang", "value": "de"}, ["b", "c/d?"]),
        ({"field": "year", "value": "2020"}, ["a", "b"]),
        ({"where": "lang = 'de' or line = 4"}, ["b", "c/d?", "bad"]),
        ({"sort": "worst"}, ["c/d?", "b", "a"]),
        ({"sort": "best", "status": ""}, ["a", "b", "c/d?"]),
    ],
)
def test_the_address_says_which_documents_are_listed(
    client: TestClient, some_job: int, asked: dict[str, str], wanted: list[str | None]
) -> None:
    assert ids(found(client, some_job, **asked)) == wanted
    assert client.get(f"/jobs/{some_job}/documents?{urlencode(asked)}").status_code == 200


@pytest.mark.parametrize("asked", [{}, {"search": "storm"}, {"where": "lang = 'de'", "max_perplexity": "5"}])
def test_the_download_and_the_command_hold_what_is_listed(
    client: TestClient, kvjobs: Kvjobs, some_job: int, asked: dict[str, str]
) -> None:
    data = found(client, some_job, **asked)
    words = shlex.split(data["command_line"])

    downloaded = client.get(f"/jobs/{some_job}/export?{urlencode({'format': 'jsonl', **asked})}")

    assert words[:2] == ["kvjobs", "export"]
    assert downloaded.text == kvjobs(*words[1:-2]).out
    assert [json.loads(line)["id"] for line in downloaded.text.splitlines()] == ids(data)
    name = "job-1-selection.jsonl" if asked else "job-1.jsonl"
    assert downloaded.headers["content-disposition"] == f'attachment; filename="{name}"'


def test_waiting_documents_are_listed_and_downloaded_too(client: TestClient, kvjobs: Kvjobs, running_job: int) -> None:
    data = found(client, running_job)

    downloaded = client.get(f"/jobs/{running_job}/export").text

    assert [json.loads(line)["id"] for line in downloaded.splitlines()] == ids(data)
    assert downloaded == kvjobs(*shlex.split(data["command_line"])[1:-2]).out


def test_a_csv_runs_no_formula_of_a_document(client: TestClient, add_job: AddJob) -> None:
    job_id = add_job(Line("x", "=HYPERLINK(1)"))

    rows = list(csv.DictReader(io.StringIO(client.get(f"/jobs/{job_id}/export?format=csv").text)))

    assert rows[0]["translation"] == "'=HYPERLINK(1)"


def test_a_csv_for_excel_is_the_csv_behind_a_byte_order_mark(client: TestClient, some_job: int) -> None:
    plain, marked = (client.get(f"/jobs/{some_job}/export?format={form}") for form in ("csv", "excel"))

    assert marked.content == codecs.BOM_UTF8 + plain.content
    assert marked.headers["content-disposition"] == plain.headers["content-disposition"]
    assert "format=excel" in client.get(f"/jobs/{some_job}/documents").text


def test_a_measure_with_a_heading_is_a_column_of_the_list(
    client: TestClient, some_job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    measures = (Measure("log-probability", "log_prob", "nats", column="Log-probability"),)
    kind = replace(KINDS[Task.TRANSLATE], measures=measures)
    monkeypatch.setitem(KINDS, kind.name, kind)  # type: ignore[misc]  # elsewhere nobody changes it
    monkeypatch.setattr(RESULTS[kind.name], "kind", kind)

    page = client.get(f"/jobs/{some_job}/documents").text
    assert '<th scope="col" class="num">Log-probability</th></tr>' in page
    assert page.count('data-label="Log-probability"') == 5
    assert [one["log_prob"] for one in found(client, some_job)["documents"]] == [-1, -9, -20, None, None]


def test_the_list_can_be_filtered_by_every_flag_that_an_engine_gives() -> None:
    """Read from the engines and providers of each task: their modules are named after it."""
    for task, stem in ((Task.TRANSLATE, "translation"), (Task.SCORE, "scoring"), (Task.GENERATE, "generation")):
        modules = [file for folder in ("engine/tasks", "providers") for file in WORKER.glob(f"{folder}/**/{stem}.py")]
        given = {name for file in modules for name in re.findall(r"Flag\.([A-Z_]+)", file.read_text())}
        assert given, modules
        assert given <= {flag.name for flag in KINDS[task].flags}


def test_a_selection_is_downloaded_as_parquet(client: TestClient, add_job: AddJob) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (pip install '.[parquet]')")
    job_id = add_job(Line("x", "eins", fields={"n": 1}), Line("y", "zwei", fields={"n": 2}))

    downloaded = client.get(f"/jobs/{job_id}/export?format=parquet")

    assert downloaded.headers["content-disposition"] == f'attachment; filename="job-{job_id}.parquet"'
    assert parquet.read_table(io.BytesIO(downloaded.content)).column("n").to_pylist() == [1, 2]


def test_text_of_documents_is_text(client: TestClient, some_job: int) -> None:
    page = client.get(f"/jobs/{some_job}/documents").text

    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert not {"\u202e", "\x1b"} & set(page)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"where": "nonsense ="}, "ends in the middle"),
        ({"where": "langs = 1"}, "there are lang, year"),
        ({"where": "line = 1) or (1 = 1"}, "does not expect"),
        ({"field": "nothing", "value": "x"}, "has 'nothing'"),
    ],
)
def test_a_wrong_condition_is_a_sentence_beside_the_form(
    client: TestClient, some_job: int, asked: dict[str, str], sentence: str
) -> None:
    page = client.get(f"/jobs/{some_job}/documents?{urlencode(asked)}")

    assert page.status_code == 400
    assert sentence in found(client, some_job, **asked)["problem"]
    assert 'name="where"' in page.text
    refused = client.get(f"/jobs/{some_job}/export?{urlencode(asked)}")
    assert (refused.status_code, "attachment" in str(refused.headers)) == (400, False)


@pytest.mark.parametrize("query", ["after=x", "after=nan:1", "min_length=-1", "min_perplexity=inf", "sort=random"])
def test_an_address_that_nobody_wrote_is_refused(client: TestClient, some_job: int, query: str) -> None:
    assert client.get(f"/jobs/{some_job}/documents?{query}").status_code == 400


def test_pages_lead_forward_and_back(client: TestClient, add_job: AddJob) -> None:
    job_id = add_job(*(Line(f"d{number}", "x") for number in range(120)))

    first = found(client, job_id)
    second = found(client, job_id, after=first["after"])
    third = found(client, job_id, after=second["after"])
    again = found(client, job_id, before=third["before"])

    assert [len(page["documents"]) for page in (first, second, third)] == [50, 50, 20]
    assert (first["before"], third["after"]) == (None, None)
    assert ids(again) == ids(second)


def test_a_search_that_takes_too_long_says_how_far_it_came(
    client: TestClient, add_job: AddJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = add_job(*(Line(f"d{number}", "x") for number in range(20)))
    monkeypatch.setattr(document_pages, "FIRST_WINDOW", 10)
    monkeypatch.setattr(
        document_pages.read_page, "__kwdefaults__", {**document_pages.read_page.__kwdefaults__, "budget_s": 0.0}
    )

    page = client.get(f"/jobs/{job_id}/documents?where=id+%3D+%27d15%27").text
    data = found(client, job_id, where="id = 'd15'")

    assert line_with(page, "0 to 10 ", "20.")
    assert ids(found(client, job_id, where="id = 'd15'", after=data["stopped"])) == ["d15"]


def test_scores_and_rankings_have_columns_of_their_own(client: TestClient, add_job: AddJob) -> None:
    score = add_job(Line("s", result=Score(10.0, 5, 4, 20)), task=Task.SCORE, options=ScoreOptions())
    candidates = tuple(RankedCandidate(name, rank, -rank, None) for rank, name in enumerate(("two", "one"), 1))
    query = json.dumps(
        {"query": "Which?", "candidates": [{"id": "one", "text": "1"}, {"id": "two", "text": "<i>2</i>"}]}
    )
    ranked = add_job(
        Line("q", result=Ranking(candidates, 1, 1, 0), text=query), task=Task.RERANK, options=RerankOptions()
    )

    assert round(found(client, score)["documents"][0]["perplexity"], 3) == 7.389
    row = found(client, ranked)["documents"][0]
    assert row["source"]["text"] == "Which?"
    assert [(one["id"], one["old_rank"]) for one in row["moves"]] == [("two", 2), ("one", 1)]
    assert "&lt;i&gt;2&lt;/i&gt;" in client.get(f"/jobs/{ranked}/documents").text  # what the candidate says
    assert client.get(f"/jobs/{ranked}/documents?sort=worst").status_code == 400


def test_a_job_that_is_not_there_is_not_found(client: TestClient) -> None:
    assert client.get("/jobs/7/documents").status_code == 404
    assert client.get("/jobs/7/export").status_code == 404
    assert client.get("/jobs/7/documents/x").status_code == 404


@ON_BOTH
@pytest.mark.parametrize(
    ("format", "is_offered"), [("jsonl", True), ("beir", False), (None, False)], ids=["jsonl", "beir", "older version"]
)
def test_lines_of_the_corpus_are_offered_where_they_can_be_exported(
    client: TestClient, database: Database, some_job: int, format: str | None, is_offered: bool
) -> None:
    reading = None if format is None else json.dumps({"format": format})
    with database.writing() as connection:
        connection.execute(update(tables.Job).values(reading=reading))

    offered = [name for name, _ in found(client, some_job)["downloads"]]

    assert ("Lines of the corpus" in offered) is is_offered
    assert "JSON Lines" in offered
