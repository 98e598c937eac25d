"""Documents that are appended to an open job: which are added, and how they are read."""

import json
from dataclasses import replace
from typing import Any

import pytest

from jobs.documents import Reject
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.schema.tables import Document, Shard
from jobs.submission.open_job import OpenJob, append, find_open_job
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.store.leasing import contradictory, take
from tests.store.submission.corpora import SPEC, rows
from tests.store.submission.open_jobs import ADDED, PRESENT, REFUSED, Open, documents, states, summary, texts


def test_documents_that_are_sent_again_are_not_added_again(database: Database, opened: Open) -> None:
    job = opened()
    sent = [{"id": "a", "text": "one", "lang": "de", "n": 0.10}, {"id": 7, "text": "two"}]

    assert states(database, job, sent) == [ADDED, ADDED]
    again = append(database, job, [*sent, {"id": "c", "text": "three"}])
    in_other_order = [{"n": 0.10, "lang": "de", "text": "one", "id": "a"}]

    assert [(found.state, found.position) for found in again] == [(PRESENT, 0), (PRESENT, 1), (ADDED, 2)]
    assert states(database, job, in_other_order) == [PRESENT]
    assert summary(database, job).documents == 3


@pytest.mark.parametrize("other", [{"id": "a", "text": "two"}, {"id": "a", "text": "one", "lang": "fr"}])
def test_another_document_with_an_id_that_is_there_is_refused(
    database: Database, opened: Open, other: dict[str, str]
) -> None:
    job = opened()
    append(database, job, [{"id": "a", "text": "one", "lang": "de"}])
    refused, added = append(database, job, [other, {"id": "b", "text": "two"}])

    assert (refused.state, refused.position, refused.code) == (REFUSED, 0, Reject.DUPLICATE_ID)
    assert "'a'" in (refused.reason or "")
    assert (added.state, added.position) == (ADDED, 1)


def test_of_one_id_twice_in_an_append_the_first_document_is_added(database: Database, opened: Open) -> None:
    job = opened()
    sent = [{"id": "a", "text": "one"}, {"id": "a", "text": "one"}, {"id": "a", "text": "two"}]

    assert states(database, job, sent) == [ADDED, PRESENT, REFUSED]
    assert texts(database, job) == [(0, "a", "one")]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"text": "no id"}, Reject.NO_ID),
        ({"id": None, "text": "no id"}, Reject.NO_ID),
        ({"id": ["a"], "text": "x"}, Reject.BAD_ID),
        ({"id": "a"}, Reject.NO_TEXT),
        ({"id": "a", "text": "\0"}, Reject.NUL),
        ({"id": "a", "text": " "}, Reject.EMPTY_TEXT),
        ({"id": "a", "text": 7}, Reject.TEXT_TYPE),
        ({"id": "a", "text": "x" * 101}, Reject.TOO_LONG),
        ({"id": "a", "text": object()}, Reject.BAD_JSON),
        ({"id": "a", "text": "x", "n": 2**70}, Reject.BAD_JSON),
        ({"id": "a", "text": "\ud800"}, Reject.BAD_JSON),
        (b'{"id": "a", "text": ', Reject.BAD_JSON),
        (b'{"id": "a", "text": "\xff"}', Reject.BAD_UTF8),
        (b'["a"]', Reject.NOT_OBJECT),
        (b"", Reject.BAD_JSON),
        (b" \n ", Reject.BAD_JSON),
    ],
)
def test_a_document_that_cannot_be_read_is_refused_and_not_stored(
    database: Database, opened: Open, bad: Any, code: Reject
) -> None:
    job = opened(of_documents={"max_line_bytes": 100})
    before, refused, after = append(database, job, [*documents("b"), bad, *documents("c")])

    assert (before.state, after.state) == (ADDED, ADDED)
    assert (refused.state, refused.code, refused.position) == (REFUSED, code, None)
    assert refused.reason
    assert [row[:2] for row in texts(database, job)] == [(0, "b"), (1, "c")]
    assert summary(database, job).rejected == 0


def test_a_line_of_json_is_a_document_and_so_is_one_over_several_lines(database: Database, opened: Open) -> None:
    job = opened()
    sent = [b'{"id": "a", "text": "one\\ntwo", "n": 1e2}\n', b'{\n"id": 2,\r\n"text": "three"\n}']

    assert states(database, job, sent) == [ADDED, ADDED]
    found = rows(database, Document, "external_id", "numeric_id", "line", "text", "fields", job_id=job.job_id)
    assert found == [("a", False, 1, "one\ntwo", '{"n":1e2}'), ("2", True, 2, "three", None)]


def test_documents_are_read_as_the_task_and_the_names_of_fields_say(database: Database, opened: Open) -> None:
    rerank = replace(SPEC, task=Task.RERANK, options=RerankOptions())
    chat = replace(SPEC, task=Task.GENERATE, options=GenerateOptions(chat=True))
    named = {"id_field": "key", "text_field": "body.en"}
    pairs = replace(SPEC, task=Task.SCORE, options=ScoreOptions(pairs=True, target_language="de"))
    jobs = [opened(rerank), opened(chat), opened(of_documents=named), opened(pairs)]
    sent: list[dict[str, Any]] = [
        {"id": "a", "query": "snow", "candidates": [{"id": "1", "text": "It snows."}]},
        {"id": "a", "messages": [{"role": "user", "content": "Snow?"}]},
        {"key": "a", "body": {"en": "Snow."}},
        {"id": "a", "source": "Snow.", "target": "Schnee."},
    ]

    for job, document in zip(jobs, sent, strict=True):
        assert states(database, find_open_job(database, job.job_id), [document]) == [ADDED]
    assert json.loads(str(texts(database, jobs[0])[0][2]))["query"] == "snow"
    assert json.loads(str(texts(database, jobs[1])[0][2]))["messages"][0]["content"] == "Snow?"
    assert texts(database, jobs[2]) == [(0, "a", "Snow.")]
    assert json.loads(str(texts(database, jobs[3])[0][2])) == {"source": "Snow.", "target": "Schnee."}


def ranges(database: Database, job: OpenJob) -> list[tuple[Any, ...]]:
    return rows(database, Shard, "start", "stop", "estimated_tokens", job_id=job.job_id)


def test_documents_that_come_while_no_lane_is_free_are_one_batch(database: Database, opened: Open) -> None:
    job = opened()
    for number in range(300):
        append(database, job, [{"id": number, "text": "x"}])

    assert ranges(database, job) == [(0, 256, 256), (256, 300, 44)]
    assert [len(batch) for batch in take(database).batches] == [256]
    assert contradictory(database, job.job_id) == []


def test_a_shard_that_a_worker_has_or_had_stays_as_it_is(database: Database, opened: Open) -> None:
    job = opened()
    append(database, job, documents("a"))
    lease = take(database)
    append(database, job, documents("b"))
    leases.release(database, lease)
    append(database, job, documents("c"))

    assert [found[:2] for found in ranges(database, job)] == [(0, 1), (1, 3)]
    assert contradictory(database, job.job_id) == []


def test_a_shard_grows_to_the_tokens_of_a_batch_and_by_documents_with_few_other_fields(
    database: Database, opened: Open
) -> None:
    job = opened()
    sent = [{"id": "a", "text": "x" * 16_000}, {"id": "b", "text": "x" * 400}, {"id": "c", "text": "x"}]
    for document in (*sent, {"id": "d", "text": "x", "note": "y" * 5_000}):
        append(database, job, [document])

    assert ranges(database, job) == [(0, 1, 4000), (1, 3, 101), (3, 4, 1)]
