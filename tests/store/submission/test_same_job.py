"""When two submits give the same job, and which name it has."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from jobs.corpus.corpus import Corpus
from jobs.errors import SpecError
from jobs.providers import Choice, ProviderOrder
from jobs.store.database import Database
from jobs.store.schema.provider_tables import JobProvider
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Document, Job
from jobs.submission.submit import submit
from jobs.submission.submitted_job import PriorState, SubmittedJob
from tests.databases import ON_SQLITE
from tests.store.submission.corpora import GREEDY, SPEC, Submit, lines, num_jobs, rows


@ON_SQLITE
def test_a_delimiter_makes_another_job_only_if_it_differs_from_that_of_the_format(
    database: Database, tmp_path: Path
) -> None:
    def job_of(data: bytes, **how: Any) -> int:
        (tmp_path / "a.csv").write_bytes(data)
        return submit(database, Corpus(path=tmp_path / "a.csv", **how), SPEC, spool=tmp_path).job_id

    commas = job_of(b"id,text\n1,one\n")
    semicolons = job_of(b"id;text\n1;one\n", delimiter=";")

    assert job_of(b"id,text\n1,one\n", delimiter="comma") == commas
    assert rows(database, Document, "external_id", "text", job_id=semicolons) == [("1", "one")]


@ON_SQLITE
def test_other_columns_another_encoding_and_another_limit_are_another_job(database: Database, tmp_path: Path) -> None:
    def job_of(**how: Any) -> int:
        (tmp_path / "a.csv").write_bytes(b"1,x,one\n2,y,two\n")
        corpus = Corpus(path=tmp_path / "a.csv", **{"columns": ("id", "n", "text"), "in_windows": True} | how)
        return submit(database, corpus, SPEC, spool=tmp_path).job_id

    assert job_of() == job_of(encoding="utf8") == job_of(max_line_bytes=1 << 24) == 1
    others = [job_of(columns=("n", "id", "text")), job_of(encoding="cp1252"), job_of(max_line_bytes=1 << 20)]
    assert others == [2, 3, 4]
    assert rows(database, Document, "external_id", "text", job_id=2) == [("x", "one"), ("y", "two")]


@pytest.mark.parametrize("name", ["17", "٣", "last", "-x", "", " a", "a\n", "a\x1b[0m", "a" * 101])
def test_an_unusable_name_is_refused(database: Database, send: Submit, name: str) -> None:
    with pytest.raises(SpecError, match="the name"):
        send(lines("x"), name=name)

    assert num_jobs(database) == 0


@pytest.mark.parametrize("name", ["nightly", "2026-11-21", "v1.2", "夜间", "a b"])
def test_usable_names_are_accepted(send: Submit, name: str) -> None:
    assert send(lines("x"), name=name).name == name


def test_the_name_of_another_job_is_refused(database: Database, send: Submit) -> None:
    first = send(lines("x"), name="nightly")

    with pytest.raises(SpecError, match=f"'nightly' .*job {first.job_id}"):
        send(lines("y"), name="nightly")

    assert num_jobs(database) == 1


def test_a_job_keeps_its_name_and_a_nameless_job_takes_a_later_one(send: Submit) -> None:
    first = send(lines("x"))

    assert send(lines("x"), name="a") == replace(first, name="a", prior_state=PriorState.RUNNING, without_id=0)
    assert send(lines("x"), name="b").name == "a"
    assert send(lines("y"), name="b").name == "b"


def test_the_same_corpus_and_spec_are_the_same_job_wherever_the_file_is(database: Database, send: Submit) -> None:
    first = send(lines("x", "y"))

    again = send(lines("x", "y"), file="moved.jsonl")

    assert again == replace(first, prior_state=PriorState.RUNNING, without_id=0)
    with database.writing() as connection:
        connection.execute(update(Job).values(state=JobState.DONE))
    assert send(lines("x", "y")).prior_state == PriorState.COMPLETE
    with database.writing() as connection:
        connection.execute(update(Job).values(state=JobState.CANCELLED))
    assert send(lines("x", "y")).prior_state == PriorState.CANCELLED
    assert num_jobs(database) == 1


def test_another_text_spec_format_or_field_is_another_job(database: Database, send: Submit, tmp_path: Path) -> None:
    data = b'{"text": "x", "body": "y"}\n'
    jobs = {send(data).job_id, send(data + b"\n").job_id, send(data, GREEDY).job_id}
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(data)
    for how in ({"text_field": "body"}, {"id_field": "body"}, {"max_line_bytes": 100}, {"format": "txt"}):
        jobs.add(submit(database, Corpus(path=path, **how), SPEC, spool=tmp_path).job_id)  # type: ignore[arg-type]

    assert len(jobs) == num_jobs(database) == 7


def test_again_makes_another_job_each_time(database: Database, send: Submit) -> None:
    jobs = [send(lines("x"), again=True).job_id for _ in range(3)]

    assert len(set(jobs)) == num_jobs(database) == 3
    assert send(lines("x")).job_id == jobs[0]


def test_two_submits_from_standard_input_are_the_same_job_if_their_content_is_the_same(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipe(data: bytes) -> SubmittedJob:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return submit(database, Corpus(path="-"), SPEC, spool=tmp_path / "spool")

    first = pipe(lines("x"))

    assert pipe(lines("x")).job_id == first.job_id
    assert pipe(lines("y")).job_id != first.job_id
    assert {source for (source,) in rows(database, Job, "source")} == {"standard input"}
    assert list((tmp_path / "spool").iterdir()) == []


def test_other_providers_make_another_job_which_lists_them(database: Database, send: Submit) -> None:
    order = ProviderOrder((Choice("openai", "gpt"), Choice("onnx", skipped="it has no such model")))
    first = send(lines("x"))

    second = send(lines("x"), spec=replace(SPEC, providers=order))

    assert send(lines("x"), spec=replace(SPEC, providers=order)).job_id == second.job_id != first.job_id
    assert rows(database, Job, "providers", id=first.job_id) == [(None,)]
    assert rows(database, Job, "providers", id=second.job_id) == [(order.to_json(),)]
    columns = ("place", "provider", "model", "skipped", "documents")
    assert rows(database, JobProvider, *columns, job_id=first.job_id) == [(0, "onnx", SPEC.model, None, 0)]
    assert rows(database, JobProvider, *columns, job_id=second.job_id) == [
        (0, "openai", "gpt", None, 0),
        (1, "onnx", SPEC.model, "it has no such model", 0),
    ]
