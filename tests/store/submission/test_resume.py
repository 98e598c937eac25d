"""A submit that was killed, or whose file has changed, continues the same job: nothing is lost or written twice."""

import json
import sqlite3
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, update
from sqlalchemy.exc import OperationalError

from jobs.corpus import reading as corpus_reading
from jobs.errors import CorpusError, TransientError
from jobs.store import jobs
from jobs.store.database import Database
from jobs.store.ingest import bulk_insert, lifecycle
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Document, Job, JobCounts, Shard
from jobs.submission.progress import IngestProgress
from jobs.submission.submitted_job import PriorState
from tests.databases import ON_SQLITE
from tests.repetition import times
from tests.store.submission.killing import SPEC, Killed, corpus_of, everything, kill_after, killed, send, states

pytestmark = pytest.mark.usefixtures("small_batches")

revisions = count()

LINE = st.sampled_from(
    ['{"id": %d, "text": "good"}', '{"id": "a%d", "text": "' + "long " * 9 + '"}', "{", "", '{"id": %d}']
)


@settings(max_examples=times(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.tuples(LINE, st.integers(0, 12)), min_size=1, max_size=30),
    kills=st.lists(st.integers(1, 4), max_size=3),
)
def test_a_resumed_submit_writes_the_same_rows_as_an_uninterrupted_one(
    database: Database, tmp_path: Path, lines: list[tuple[str, int]], kills: list[int]
) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(
        "".join((line % number if "%d" in line else line) + "\n" for line, number in lines) + '{"text": "x"}\n'
    )
    whole, disturbed = (replace(SPEC, model_revision=f"r{next(revisions)}") for _ in range(2))

    expected = everything(database, send(database, path, spec=whole).job_id)
    for num_batches in kills:
        with suppress(Killed):
            send(database, path, spec=disturbed, on_progress=kill_after(num_batches))
    resumed = send(database, path, spec=disturbed)

    assert everything(database, resumed.job_id) == expected
    assert resumed.documents == sum(bool(line) for line, _ in lines) + 1


def test_a_killed_submit_continues_where_it_stopped(database: Database, path: Path) -> None:
    killed(database, path, 2)
    assert states(database) == [(1, "ingesting")]
    reported: list[IngestProgress] = []

    resumed = send(database, path, on_progress=reported.append)

    assert (resumed.job_id, resumed.prior_state, resumed.documents) == (1, PriorState.RESUMED, 20)
    assert [progress.documents for progress in reported] == [18, 20]


def test_a_submit_killed_after_its_last_batch_is_only_closed(database: Database, path: Path) -> None:
    killed(database, path, 4)

    assert send(database, path).prior_state == PriorState.RESUMED
    assert states(database) == [(1, "running")]


def test_a_killed_submit_of_a_further_job_of_the_same_corpus_continues_too(database: Database, path: Path) -> None:
    send(database, path)
    killed(database, path, again=True)

    resumed = send(database, path, again=True)

    assert (resumed.job_id, resumed.prior_state) == (2, PriorState.RESUMED)
    assert states(database) == [(1, "running"), (2, "running")]


@ON_SQLITE
@pytest.mark.parametrize(
    ("module", "broken"),
    [(bulk_insert, "_insert_documents"), (bulk_insert, "_reject_duplicates"), (lifecycle, "_read")],
)
def test_a_failed_transaction_is_rolled_back_completely(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, broken: str
) -> None:
    killed(database, path, 2)
    before = everything(database, 1)
    with monkeypatch.context() as patch:
        real, calls = lifecycle.begin, []

        def begin_then_break(*args: Any) -> Any:
            found = real(*args)
            patch.setattr(module, broken, fail)
            return found

        def fail(*args: Any) -> None:
            calls.append(args)
            raise OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))

        patch.setattr(lifecycle, "begin", begin_then_break)
        with pytest.raises(TransientError, match="free some space"):
            send(database, path)
        assert len(calls) == 1

    assert everything(database, 1) == before
    assert send(database, path).documents == 20


@ON_SQLITE
def test_after_a_full_disk_the_same_submit_continues(database: Database, path: Path) -> None:
    path.write_bytes(corpus_of(*(f"{number} " + "x" * 2000 for number in range(300))))

    def limit(pages: int) -> None:
        with database.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    limit(150)
    with pytest.raises(TransientError, match="free some space"):
        send(database, path)
    limit(1_000_000)

    resumed = send(database, path)

    assert (resumed.documents, resumed.prior_state) == (300, PriorState.RESUMED)
    assert [row["position"] for row in everything(database, 1)["Document"]] == list(range(300))


@ON_SQLITE
def test_after_a_locked_database_the_same_submit_continues(database: Database, path: Path) -> None:
    impatient = Database.open(str(database.engine.url), busy_timeout_s=0.05)

    with database.engine.connect().execution_options(kvjobs_writing=True) as holder:
        killed(impatient, path, 1)
        with pytest.raises(TransientError, match="locked"), holder.begin():
            send(impatient, path)

    assert send(impatient, path).documents == 20
    impatient.close()


def test_a_cancelled_submit_continues_once_its_job_is_retried(database: Database, path: Path) -> None:
    whole, cancelled = (replace(SPEC, model_revision=f"r{next(revisions)}") for _ in range(2))
    expected = everything(database, send(database, path, spec=whole).job_id)
    killed(database, path, 2, spec=cancelled)
    jobs.cancel(database, 2)
    assert states(database)[1] == (2, "cancelled")

    assert jobs.retry(database, 2) == 12

    assert states(database)[1] == (2, "ingesting")
    assert send(database, path, spec=cancelled).prior_state is PriorState.RESUMED
    assert everything(database, 2) == expected


def test_a_submit_that_was_cancelled_before_its_first_document_can_be_repeated(database: Database, path: Path) -> None:
    send(database, path)
    with database.writing() as connection:  # the state between `begin` and the first batch
        begun = {"state": JobState.INGESTING, "ingested": 0, "ingest_digest": None, "ingested_at": None}
        connection.execute(update(Job).values(begun))
        for table in (Document, Shard):
            connection.execute(delete(table))
        connection.execute(update(JobCounts).values(documents=0, shards=0, shards_open=0, estimated_tokens=0))
    jobs.cancel(database, 1)

    assert jobs.retry(database, 1) == 0

    assert send(database, path).documents == 20


def test_a_file_that_changed_since_the_kill_is_refused_until_the_old_job_is_cancelled(
    database: Database, path: Path
) -> None:
    killed(database, path, name="nightly")
    before = everything(database, 1)
    path.write_bytes(path.read_bytes() + corpus_of("more"))

    with pytest.raises(CorpusError, match=r"kvjobs cancel 1\) or restore the file"):
        send(database, path, name="nightly")

    assert everything(database, 1) == before
    jobs.cancel(database, 1)
    other = send(database, path, name="nightly")
    assert (other.job_id, other.documents, other.prior_state) == (2, 21, PriorState.NEW)


def test_a_file_that_was_changed_during_a_killed_submit_and_restored_starts_from_the_beginning(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = path.read_bytes()
    with monkeypatch.context() as patch:
        contents = corpus_reading.hash_contents

        def hash_then_change(*arguments: Any) -> Any:
            found = contents(*arguments)
            path.write_bytes(data.replace(b"3", b"4"))
            return found

        patch.setattr(corpus_reading, "hash_contents", hash_then_change)
        killed(database, path)
    path.write_bytes(data)

    with pytest.raises(CorpusError, match=r"changed .*first \d+ documents .*job 1 "):
        send(database, path)

    assert send(database, path).documents == 20
    texts = [row["text"] for row in everything(database, 1)["Document"]]
    assert texts == [json.loads(line)["text"] for line in data.splitlines()]


def test_a_submit_of_a_restored_file_continues(database: Database, path: Path) -> None:
    data = path.read_bytes()
    killed(database, path)
    path.write_bytes(data + b"\n")
    with pytest.raises(CorpusError, match="restore the file"):
        send(database, path)
    path.write_bytes(data)

    assert send(database, path).prior_state == PriorState.RESUMED


def test_another_file_or_spec_is_a_new_job_and_not_a_changed_one(database: Database, path: Path) -> None:
    killed(database, path)
    other = path.with_name("other.jsonl")
    other.write_bytes(corpus_of("x"))

    assert send(database, other).prior_state == PriorState.NEW
    path.write_bytes(corpus_of("y"))
    assert send(database, path, spec=replace(SPEC, model_revision="r2")).prior_state == PriorState.NEW
