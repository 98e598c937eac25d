"""A corpus becomes a job: documents, shards, counters, ids, and the reported progress."""

import gzip
import json
from pathlib import Path

import pytest
from sqlalchemy import func, select

from jobs.documents import Reject
from jobs.store.database import Database
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Document, Job, JobCounts, Shard
from jobs.submission import progress
from jobs.submission.progress import IngestProgress
from jobs.submission.submitted_job import PriorState
from tests.databases import ON_SQLITE
from tests.store.submission.corpora import SPEC, Submit, lines, rows


def test_documents_are_stored_in_the_order_of_the_corpus(database: Database, send: Submit) -> None:
    corpus = b'{"id": 7, "text": "one", "lang": "en"}\n\n{"id": "b", "text": "two"}\n{"text": "three"}\n'

    submitted = send(corpus)

    assert (submitted.documents, submitted.rejected, submitted.prior_state) == (3, 0, PriorState.NEW)
    columns = ("position", "external_id", "numeric_id", "line", "text", "fields", "estimated_tokens", "status")
    assert rows(database, Document, *columns) == [
        (0, "7", True, 1, "one", '{"lang":"en"}', 1, None),
        (1, "b", False, 3, "two", None, 1, None),
        (2, "4", True, 4, "three", None, 2, None),
    ]


def test_the_job_stores_its_options_and_its_source(database: Database, send: Submit, tmp_path: Path) -> None:
    submitted = send(lines("a"), name="nightly", priority=3)

    columns = ("name", "task", "model", "model_revision", "options", "options_digest", "source", "state", "priority")
    assert rows(database, Job, *columns, id=submitted.job_id) == [
        (
            "nightly",
            "translate",
            "tiny",
            "r1",
            SPEC.options_json(),
            SPEC.digest(),
            str(tmp_path / "corpus.jsonl"),
            "running",
            3,
        )
    ]
    assert rows(database, Job, "paused", "ingested", "started_at", "finished_at") == [(False, 1, None, None)]


@pytest.mark.usefixtures("small_shards")
def test_shards_are_ready_and_contain_every_document_once(database: Database, send: Submit) -> None:
    texts = ["a" * 4, "a" * 4, "a" * 100, "a" * 4, None, "a" * 4, None, None, None, "a" * 4]

    submitted = send(lines(*texts))

    columns = ("start", "stop", "estimated_tokens", "queue", "state", "lease_epoch", "attempts", "crashes")
    assert rows(database, Shard, *columns) == [
        (0, 2, 2, "cpu", "ready", 0, 0, 0),
        (2, 3, 25, "cpu", "ready", 0, 0, 0),
        (3, 6, 2, "cpu", "ready", 0, 0, 0),
        (9, 10, 1, "cpu", "ready", 0, 0, 0),  # 6 to 8 are all rejected, so they have no shard
    ]
    assert all(available_at is not None for (available_at,) in rows(database, Shard, "available_at"))
    assert (submitted.shards, submitted.estimated_tokens) == (4, 30)


@pytest.mark.usefixtures("small_shards")
def test_the_counters_equal_a_recount(database: Database, send: Submit) -> None:
    send(b'{"id": 1, "text": "x"}\n' * 4 + lines("a" * 50, None, "b", " "))

    counts = ("documents", "rejected", "shards", "shards_open", "estimated_tokens", "succeeded", "estimated_done")
    assert rows(database, JobCounts, *counts) == [(8, 5, 3, 3, 15, 0, 0)]
    with database.reading() as connection:
        assert connection.scalar(select(func.sum(Document.estimated_tokens))) == 18 - 3
        assert connection.scalar(select(func.sum(Shard.estimated_tokens))) == 15


def test_a_job_without_documents_to_process_is_done_at_once(database: Database, send: Submit) -> None:
    submitted = send(b'{"id": 1}\n{"id": 1, "text": "x"}\n')

    assert (submitted.state, submitted.documents, submitted.rejected, submitted.shards) == (JobState.DONE, 2, 2, 0)
    ((finished_at,),) = rows(database, Job, "finished_at")
    assert finished_at is not None


def test_hostile_text_is_stored_as_it_is(database: Database, send: Submit) -> None:
    hostile = ["<b>&amp;", "\x1b[2J", "'; DROP TABLE jobs; --", "=cmd()", "</s> >>fr<< <unk>", "?", "%s", ":a"]

    send(lines(*hostile))

    assert [text for (text,) in rows(database, Document, "text")] == hostile


def test_a_rejected_line_keeps_its_position_its_reason_and_a_usable_id(database: Database, send: Submit) -> None:
    send(b'{"id": "a"}\n{\n{"id": "c", "text": "x"}\n')

    columns = ("position", "external_id", "line", "text", "status", "error_code", "estimated_tokens")
    assert rows(database, Document, *columns) == [
        (0, "a", 1, None, "rejected", "no-text", 0),
        (1, None, 2, None, "rejected", "bad-json", 0),
        (2, "c", 3, "x", None, None, 1),
    ]
    assert all(error.isprintable() for (error,) in rows(database, Document, "error", status="rejected"))


@pytest.mark.usefixtures("small_shards")
def test_an_id_belongs_to_the_first_line_that_has_it(database: Database, send: Submit) -> None:
    ids = ["a", "b", "a", "c", "d", "e", "f", "a", "3", None, "b"]
    corpus = [json.dumps({"id": i, "text": f"text {n}"}) for n, i in enumerate(ids)]
    corpus[8] = '{"text": "line 9 has the id 9"}'
    corpus[9] = '{"id": 9, "text": "the number and the text 9 are one id"}'

    submitted = send("\n".join(corpus).encode())

    assert submitted.rejected == 4
    rejected = rows(database, Document, "line", "external_id", "error_code", "error", status="rejected")
    assert [row[:3] for row in rejected] == [(line, None, Reject.DUPLICATE_ID.value) for line in (3, 8, 10, 11)]
    assert [row[3].split("; ")[0] for row in rejected] == [
        "the id 'a' was used before, on line 1",
        "the id 'a' was used before, on line 1",
        "the id '9' was used before, on line 9",
        "the id 'b' was used before, on line 2",
    ]


def test_the_id_of_a_rejected_line_is_taken_too(database: Database, send: Submit) -> None:
    send(b'{"id": "a"}\n{"id": "a", "text": "x"}\n{"id": "a", "text": 1}\n')

    codes = rows(database, Document, "external_id", "error_code")
    assert codes == [("a", "no-text"), (None, "duplicate-id"), (None, "duplicate-id")]


def test_ids_are_compared_within_a_job_only(send: Submit) -> None:
    assert send(b'{"id": 1, "text": "x"}\n').rejected == 0
    assert send(b'{"id": 1, "text": "y"}\n').rejected == 0


@pytest.mark.usefixtures("small_shards")
def test_progress_is_reported_after_each_batch(send: Submit) -> None:
    reported: list[IngestProgress] = []
    data = lines(*["x"] * 11, None)

    submitted = send(data, on_progress=reported.append)

    assert [progress.documents for progress in reported] == [6, 12]
    assert [progress.rejected for progress in reported] == [0, 1]
    assert {(progress.job_id, progress.num_bytes) for progress in reported} == {(submitted.job_id, len(data))}
    assert reported[-1].bytes_read == len(data)


@ON_SQLITE
def test_progress_is_reported_while_lines_are_blank(
    database: Database, send: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "REPORT_EVERY_S", 0.0)
    reported: list[IngestProgress] = []
    packed = gzip.compress(b"\n" * 1_000_000 + lines("x"))

    submitted = send(packed, file="a.jsonl.gz", on_progress=reported.append)

    while_blank = [progress for progress in reported if progress.job_id is None]
    assert len(while_blank) > 2
    assert all(progress.documents == 0 for progress in while_blank)
    numbers = [progress.lines for progress in reported]
    assert numbers == sorted(numbers)
    assert (reported[-1].job_id, reported[-1].documents, reported[-1].lines) == (submitted.job_id, 1, 1_000_001)
