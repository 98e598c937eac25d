"""A corpus of several languages is one job: each document is stored with its route, and leased with those that share
it."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.corpus.corpus import Corpus
from jobs.errors import CorpusError
from jobs.routing.routes import Leg, Route, revision_of
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.schema.rollup_tables import FailureCounts
from jobs.store.schema.tables import Document
from jobs.submission import shards
from jobs.submission.open_job import append, corpus_of_documents, find_open_job, open_job
from jobs.submission.submit import submit
from jobs.submission.submitted_job import PriorState, SubmittedJob
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from jobs.tolerance import Tolerance
from tests.messages import line_with
from tests.store.submission.corpora import rows

ROUTES = tuple(
    Route(
        legs=(Leg(model=f"m-{language}-de", model_revision=number * 64, source_language=language),), language=language
    )
    for language, number in (("en", "1"), ("fr", "2"))
)
SPEC = JobSpec(
    task=Task.TRANSLATE,
    model="auto",
    model_revision=revision_of(ROUTES),
    options=TranslateOptions(routes=ROUTES, target_language="de"),
)
LANGUAGES = ("fr", "en", "sw", "fr", None, "en-GB")


@pytest.fixture
def send(database: Database, tmp_path: Path) -> Callable[..., SubmittedJob]:
    """Submit a corpus of a document for each language, in the field `l`."""

    def call(*languages: str | None, default: str | None = None, spec: JobSpec = SPEC, **how: Any) -> SubmittedJob:
        lines = ({"id": f"d{at}", "text": f"text {at}", "l": language} for at, language in enumerate(languages))
        (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        corpus = Corpus(path=tmp_path / "corpus.jsonl", language_field="l", default_language=default)
        return submit(database, corpus, spec, spool=tmp_path / "spool", **how)

    return call


def test_each_document_has_its_route_or_is_a_rejected_line(
    database: Database, send: Callable[..., SubmittedJob]
) -> None:
    submitted = send(*LANGUAGES)

    assert (submitted.documents, submitted.rejected) == (6, 2)
    assert rows(database, Document, "external_id", "line", "route", "status", "error_code") == [
        ("d0", 1, "fr", None, None),
        ("d1", 2, "en", None, None),
        ("d2", 3, None, "rejected", "no-route"),
        ("d3", 4, "fr", None, None),
        ("d4", 5, None, "rejected", "no-language"),
        ("d5", 6, "en", None, None),
    ]
    assert rows(database, Document, "text", "fields")[2] == ("text 2", '{"l":"sw"}'), "it is exported with its fields"
    assert {row[0] for row in rows(database, FailureCounts, "error_code")} == {"no-route", "no-language"}


def test_a_lease_has_a_batch_for_each_route_with_the_model_of_that_route(
    database: Database, send: Callable[..., SubmittedJob]
) -> None:
    send(*LANGUAGES, default="fr")

    work = leases.lease(database, 1, 0, 60.0)

    assert work is not None
    assert [[document.position for document in batch] for batch in work.batches] == [[0, 3, 4], [1, 5]]
    specs = [work.spec.on_route(batch[0].route) for batch in work.batches]
    assert [(one.model, one.model_revision[0]) for one in specs] == [("m-fr-de", "2"), ("m-en-de", "1")]
    assert specs[0].options == TranslateOptions(source_language="fr")


def test_documents_sorted_by_language_have_shards_of_one_model(
    database: Database, send: Callable[..., SubmittedJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_TOKENS", 20)
    send(*["fr"] * 6, *["en"] * 6)

    routes = []
    while work := leases.lease(database, 1, 0, 60.0):
        routes.append({document.route for batch in work.batches for document in batch})
    assert routes == [{"fr"}, {"en"}]


def test_a_corpus_is_refused_whole_with_the_lines_that_have_no_route(
    database: Database, send: Callable[..., SubmittedJob]
) -> None:
    with pytest.raises(CorpusError) as refused:
        send(*LANGUAGES, max_rejected=Tolerance(lines=1))
    assert "2 of 6 " in str(refused.value)
    assert line_with(str(refused.value), "line 3: ", "'sw'", "de ", "en, fr")
    assert line_with(str(refused.value), "line 5: ", "'l'")
    with pytest.raises(CorpusError, match=r"none .*2 lines.*line 1: .*no route"):
        send("sw", "sw")
    assert rows(database, Document, "external_id") == []


def test_other_routes_and_another_default_are_another_job(
    database: Database, send: Callable[..., SubmittedJob]
) -> None:
    first, again = send(*LANGUAGES), send(*LANGUAGES)
    assert (again.job_id, again.prior_state) == (first.job_id, PriorState.RUNNING)

    fewer = dataclasses.replace(SPEC, options=TranslateOptions(routes=ROUTES[:1], target_language="de"))
    others = {send(*LANGUAGES, default="en").job_id, send(*LANGUAGES, spec=fewer).job_id}
    assert len(others | {first.job_id}) == 3


def test_a_document_that_is_appended_has_its_route_or_is_refused(database: Database) -> None:
    corpus = corpus_of_documents(SPEC, language_field="l", default_language="en")
    opened, _ = open_job(database, corpus, SPEC)
    job = find_open_job(database, opened.job_id)  # with the default language that is stored
    languages = ("fr", "sw", None)
    appended = append(database, job, [{"id": str(at), "text": "x", "l": name} for at, name in enumerate(languages)])

    assert [found.code for found in appended] == [None, "no-route", None]
    assert rows(database, Document, "external_id", "route") == [("0", "fr"), ("2", "en")]
