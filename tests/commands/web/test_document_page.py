"""/jobs/N/documents/ID: the document that the id means, and all that is known of it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from jobs.outcome import AlignedSegment, Finish, Generation, RankedCandidate, Ranking, Score, TokenScore
from jobs.store.database import Database
from jobs.store.schema.states import DocumentStatus
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.answered_jobs import TRANSLATED, insert_answered_job
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import PIVOT, PIVOT_COLUMNS, AddJob, Line, pivoted


def document(client: TestClient, address: str) -> dict[str, Any]:
    data: dict[str, Any] = client.get(address).json()
    return data


@ON_BOTH
@pytest.mark.parametrize("document_id", ["7", "a/b", "a?b#c", "größe 中", "a.json", "with space", ".json"])
def test_an_id_of_any_characters_leads_to_its_document(client: TestClient, add_job: AddJob, document_id: str) -> None:
    job_id = add_job(Line("before", "x"), Line(document_id, "Übersetzung"), Line("after", "y"))
    listed = document(client, f"/jobs/{job_id}/documents.json")["documents"][1]

    page = client.get(listed["href"])

    assert page.status_code == 200
    assert "Übersetzung" in page.text
    assert 'rel="prev"' in page.text
    assert 'rel="next"' in page.text


def test_json_stands_behind_an_id_unless_it_is_one(client: TestClient, add_job: AddJob) -> None:
    job_id = add_job(Line("a", "x"), Line("b", "y"), Line("b.json", "z"))

    assert document(client, f"/jobs/{job_id}/documents/a.json")["target"] == "x"
    assert client.get(f"/jobs/{job_id}/documents/b.json").headers["content-type"].startswith("text/html")
    assert document(client, f"/jobs/{job_id}/documents/.json?position=1")["target"] == "y"


def test_a_line_without_an_id_is_found_by_its_position(client: TestClient, mixed_job: int) -> None:
    page = client.get(f"/jobs/{mixed_job}/documents/?position=2")

    assert page.status_code == 200
    assert line_with(page.text, "line 3 ", "JSON")
    assert client.get(f"/jobs/{mixed_job}/documents/?position=99").status_code == 404


def test_without_an_id_the_list_is_shown(client: TestClient, mixed_job: int) -> None:
    assert client.get(f"/jobs/{mixed_job}/documents/?status=ok").url.path == f"/jobs/{mixed_job}/documents"


def test_neighbours_are_those_of_the_list_that_it_stands_in(client: TestClient, add_job: AddJob) -> None:
    bad = {"status": DocumentStatus.FAILED, "error": ("engine-error", "it broke")}
    job_id = add_job(Line("a", **bad), Line("b", "x"), Line("c", **bad), Line("d", "y"), Line("e", **bad))  # type: ignore[arg-type]  # a line

    data = document(client, f"/jobs/{job_id}/documents/c.json?status=failed")

    assert data["previous"] == f"/jobs/{job_id}/documents/a?status=failed"
    assert data["next"] == f"/jobs/{job_id}/documents/e?status=failed"
    assert data["list_address"] == f"/jobs/{job_id}/documents?status=failed"


@ON_BOTH
def test_neighbours_by_perplexity_are_the_next_better_and_worse(client: TestClient, add_job: AddJob) -> None:
    job_id = add_job(
        *(Line(name, "x", log_prob=log_prob) for name, log_prob in (("a", -1.1), ("b", -3.3), ("c", -2.2)))
    )

    data = document(client, f"/jobs/{job_id}/documents/c.json?sort=worst")

    assert [data["previous"], data["next"]] == [f"/jobs/{job_id}/documents/{name}?sort=worst" for name in ("b", "a")]


@pytest.mark.parametrize("order", ["worst", "longest"])
def test_neighbours_of_a_continuation_are_found_in_every_order(client: TestClient, add_job: AddJob, order: str) -> None:
    found = [Generation("x", -size, Finish.EOS, int(size), 0, 1) for size in (1.0, 3.0, 2.0)]
    lines = [Line(name, result=one) for name, one in zip("abc", found, strict=True)]
    job_id = add_job(*lines, task=Task.GENERATE, options=GenerateOptions())

    data = document(client, f"/jobs/{job_id}/documents/c.json?sort={order}")

    assert [data["previous"], data["next"]] == [f"/jobs/{job_id}/documents/{name}?sort={order}" for name in "ba"]


def test_hostile_text_is_text_wherever_it_stands(client: TestClient, add_job: AddJob) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e"
    job_id = add_job(
        Line(
            hostile,
            hostile,
            text=hostile,
            fields={hostile: [hostile]},
            flags="split",
            alternatives=[{"translation": hostile, "score": -1.0}],
        ),
        Line("bad", status=DocumentStatus.FAILED, text=hostile, error=("engine-error", hostile)),
    )
    for position in (0, 1):
        page = client.get(f"/jobs/{job_id}/documents/?position={position}").text
        assert "<img" not in page
        assert "\u202e" not in page


def test_tokens_have_colours_and_a_table(client: TestClient, add_job: AddJob) -> None:
    tokens = (TokenScore("A", 0, 1, None), TokenScore(" <b>", 1, 5, -0.01), TokenScore("!", 5, 6, -9.5))
    score = Score(9.51, 2, 2, 6, flags=(), tokens=tokens)
    job_id = add_job(Line("t", result=score, text="A <b>!"), task=Task.SCORE, options=ScoreOptions(token_scores=True))

    page = client.get(f"/jobs/{job_id}/documents/t").text

    assert '<span class="p9" title="-0.0100 nats, 99 %"> &lt;b&gt;</span>' in page
    assert '<span class="p0" title="-9.50 nats, &lt; 0.1 %">!</span>' in page
    assert "-9.50" in page
    assert "style=" not in page


def test_a_ranking_shows_old_and_new_ranks(client: TestClient, add_job: AddJob) -> None:
    ranking = Ranking((RankedCandidate("two", 1, -0.5, 3.0), RankedCandidate("one", 2, None, 9.0, "too long")), 1, 1, 0)
    query = json.dumps(
        {"query": "Which?", "candidates": [{"id": "one", "text": "Eins"}, {"id": "two", "text": "Zwei"}]}
    )
    job_id = add_job(Line("q", result=ranking, text=query), task=Task.RERANK, options=RerankOptions())

    page = client.get(f"/jobs/{job_id}/documents/q").text

    assert line_with(page, "rank 2", " to 1")
    assert "too long" in page
    assert "Eins" in page


def test_a_text_of_a_megabyte_is_folded_until_it_is_asked_for(client: TestClient, add_job: AddJob) -> None:
    job_id = add_job(Line("long", "b" * 1_000_000, text="a" * 1_000_000))

    folded = client.get(f"/jobs/{job_id}/documents/long")
    whole = client.get(f"/jobs/{job_id}/documents/long?whole=true")

    assert len(folded.text) < 60_000
    assert "1,000,000 characters" in folded.text
    assert "a" * 1_000_000 in whole.text


@ON_BOTH
def test_it_says_how_the_document_was_processed(client: TestClient, add_job: AddJob, database: Database) -> None:
    job_id = add_job(Line("a", "x"), Line("b", "y"))
    data = document(client, f"/jobs/{job_id}/documents/a.json")

    assert (data["processing"]["start"], data["processing"]["stop"], data["processing"]["attempts"]) == (0, 2, 1)
    assert data["measures"][0] == {"name": "perplexity", "value": pytest.approx(1.1618, abs=1e-4)}


@ON_BOTH
def test_a_document_names_its_provider_and_an_unknown_log_probability_is_no_number(
    client: TestClient, database: Database
) -> None:
    job = insert_answered_job(database, TRANSLATED)

    page = client.get(f"/jobs/{job}/documents/d1").text
    worst = client.get(f"/jobs/{job}/documents?sort=worst").text

    assert "<dt>answered by</dt><dd>openai</dd>" in page
    assert "<dt>perplexity</dt><dd>-</dd><dt>log-probability</dt><dd>-</dd>" in page
    assert "/documents/d0" in worst
    assert "/documents/d1" not in worst


@pytest.mark.parametrize(("text", "log_prob"), [("the rain <b>ends</b>", -1.5), ("", None)])
def test_a_continued_prompt_has_its_continuation_and_why_that_ended(
    client: TestClient, add_job: AddJob, text: str, log_prob: float | None
) -> None:
    found = Generation(text, log_prob, Finish.STOP, 4, 0, 3 if text else 0)
    job_id = add_job(Line("p", result=found, text="When"), task=Task.GENERATE, options=GenerateOptions(stop=("\n",)))

    page = client.get(f"/jobs/{job_id}/documents/p").text

    assert "<dt>ended by</dt><dd><code>stop</code></dd>" in page
    assert "<h2>Prompt</h2>" in page
    assert "<h2>Continuation</h2>" in page
    assert "<b>ends" not in page
    listed = client.get(f"/jobs/{job_id}/documents").text
    assert all(f'<th scope="col">{name}</th>' in listed for name in ("Prompt", "Continuation"))
    assert "stop []" not in client.get(f"/jobs/{job_id}").text


@ON_BOTH
def test_a_document_of_two_models_shows_three_texts_sentence_by_sentence(
    client: TestClient, add_job: AddJob, database: Database
) -> None:
    line = Line(
        "a",
        text="Du vent. Soleil.",
        result=pivoted(
            "Wind. Sonne.",
            "Windy. Sun.",
            (AlignedSegment(0, 8, 0, 5), (0, 6)),
            (AlignedSegment(9, 16, 6, 12), (7, 11)),
        ),
    )
    job_id = add_job(line, **PIVOT_COLUMNS)

    data = document(client, f"/jobs/{job_id}/documents/a.json")
    page = client.get(f"/jobs/{job_id}/documents/a").text

    assert [(one["source"], one["via"], one["target"]) for one in data["aligned"]["pairs"]] == [
        ("Du vent.", "Windy.", "Wind."),
        ("Soleil.", "Sun.", "Sonne."),
    ]
    assert data["languages"] == {"source": "fr", "via": "en", "target": "de"}
    for lang, text in (("fr", "Soleil."), ("en", "Sun."), ("de", "Sonne.")):
        assert f'lang="{lang}">{text}</bdi>' in page
    measured = {one["name"]: one["value"] for one in data["measures"]}
    assert (measured["tokens written, middle"], measured["tokens read, middle"]) == (7, 6)
    (listed,) = client.get(f"/jobs/{job_id}/documents.json?search=windy").json()["documents"]
    assert (listed["id"], listed["via"]["text"]) == ("a", "Windy. Sun.")
    assert "in the middle: " in client.get(f"/jobs/{job_id}/documents?search=windy").text
    assert "in the middle: " not in client.get(f"/jobs/{job_id}/documents?search=sonne").text
    assert client.get(f"/jobs/{job_id}").text.count("opus-mt-en-de (revision 222222222222) (via en)") == 1


def test_a_document_of_a_job_of_several_languages_shows_its_route(client: TestClient, add_job: AddJob) -> None:
    by_language = replace(PIVOT, language="fr")
    columns = {"model": "auto", "options": TranslateOptions(routes=(by_language,), target_language="de")}
    line = Line("a", text="du vent", result=pivoted("Wind", "wind"), route="fr")
    job_id = add_job(line, Line("b"), **columns)

    data = document(client, f"/jobs/{job_id}/documents/a.json")
    page = client.get(f"/jobs/{job_id}/documents/a").text

    assert data["languages"] == {"source": "fr", "via": "en", "target": "de"}
    assert (data["document"]["route"], data["models"]) == ("fr", "opus-mt-fr-en+opus-mt-en-de")
    assert 'fr <span class="quiet">opus-mt-fr-en+opus-mt-en-de</span>' in page
    assert (
        client.get(f"/jobs/{job_id}").text.count("fr: opus-mt-fr-en (revision 111111111111), then opus-mt-en-de") == 1
    )
    assert client.get(f"/jobs/{job_id}/documents").status_code == 200
