"""A submit that is killed, meets another, or finds its file changed: the same job, nothing lost, nothing twice."""

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, event, func, select, update
from sqlalchemy.exc import OperationalError

from jobs.corpus import reading as corpus_reading
from jobs.corpus.corpus import Corpus
from jobs.errors import CorpusError, KvjobsError, TransientError
from jobs.spec import JobSpec, Task, TranslateOptions
from jobs.store import jobs
from jobs.store.database import Database
from jobs.store.ingest import bulk_insert, lifecycle
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Document, Job, JobCounts, Shard
from jobs.submission import shards
from jobs.submission.progress import IngestProgress
from jobs.submission.submit import submit
from jobs.submission.submitted_job import PriorState, SubmittedJob
from tests.databases import ON_SQLITE

SPEC = JobSpec(task=Task.TRANSLATE, model="tiny", model_revision="r1", options=TranslateOptions())
revisions = count()


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHARD_TOKENS": 12, "SHARD_DOCUMENTS": 3, "BATCH_DOCUMENTS": 5}.items():
        monkeypatch.setattr(shards, name, value)


@pytest.fixture(autouse=True)
def without_fsync(database: Database) -> None:
    """No test here cuts the power; on a busy disk the fsyncs are most of the time."""
    if database.is_sqlite:
        database.engine.dispose()
        event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A corpus of 20 documents, which are 4 batches."""
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(corpus_of(*(f"good {number}" for number in range(20))))
    return path


def corpus_of(*texts: str) -> bytes:
    return b"".join(json.dumps({"id": text, "text": text}).encode() + b"\n" for text in texts)


def send(database: Database, path: Path, **how: Any) -> SubmittedJob:
    return submit(database, Corpus(path=path), how.pop("spec", SPEC), spool=path.parent, **how)


def kill_after(num_batches: int) -> Callable[[IngestProgress], None]:
    """Progress that kills the submit after so many batches."""
    told = count(1)

    def tell(progress: IngestProgress) -> None:
        if next(told) >= num_batches:
            raise Killed

    return tell


def killed(database: Database, path: Path, num_batches: int = 2, **how: Any) -> None:
    with pytest.raises(Killed):
        send(database, path, on_progress=kill_after(num_batches), **how)


def everything(database: Database, job_id: int) -> dict[str, list[dict[str, Any]]]:
    """All rows of a job, without the numbers and times that differ between any two."""
    found = {}
    with database.reading() as connection:
        for table in (Document, Shard, JobCounts):
            of_job = select(table.__table__).where(table.__table__.c.job_id == job_id)
            ordered = of_job.order_by(*table.__table__.primary_key)
            found[table.__name__] = [dict(row._mapping) for row in connection.execute(ordered)]
        job = select(Job.state, Job.ingested, Job.reason).where(Job.id == job_id)
        found["Job"] = [dict(row._mapping) for row in connection.execute(job)]
    for row in (row for rows in found.values() for row in rows):
        for name in ("id", "job_id", "available_at"):
            row.pop(name, None)
    return found


def states(database: Database) -> list[tuple[int, str]]:
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(select(Job.id, Job.state).order_by(Job.id))]


# killed -------------------------------------------------------------------------------------------------------------

LINE = st.sampled_from(
    ['{"id": %d, "text": "good"}', '{"id": "a%d", "text": "' + "long " * 9 + '"}', "{", "", '{"id": %d}']
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    lines=st.lists(st.tuples(LINE, st.integers(0, 12)), min_size=1, max_size=30),
    kills=st.lists(st.integers(1, 4), max_size=3),
)
def test_a_killed_submit_ends_with_the_rows_of_an_undisturbed_one(
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


def test_a_killed_submit_goes_on_where_it_stopped(database: Database, path: Path) -> None:
    killed(database, path, 2)
    assert states(database) == [(1, "ingesting")]
    told: list[IngestProgress] = []

    resumed = send(database, path, on_progress=told.append)

    assert (resumed.job_id, resumed.prior_state, resumed.documents) == (1, PriorState.RESUMED, 20)
    assert [progress.documents for progress in told] == [18, 20]


def test_a_submit_killed_before_its_end_is_only_finished(database: Database, path: Path) -> None:
    killed(database, path, 4)

    assert send(database, path).prior_state == PriorState.RESUMED
    assert states(database) == [(1, "running")]


def test_a_killed_submit_of_another_job_of_the_corpus_goes_on_too(database: Database, path: Path) -> None:
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
def test_a_transaction_that_fails_leaves_nothing_half_written(
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
        with pytest.raises(TransientError, match="free some space there, then try again"):
            send(database, path)
        assert len(calls) == 1

    assert everything(database, 1) == before
    assert send(database, path).documents == 20


@ON_SQLITE
def test_a_full_disk_is_told_and_the_same_submit_goes_on(database: Database, path: Path) -> None:
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
def test_a_locked_database_is_told_and_the_same_submit_goes_on(database: Database, path: Path) -> None:
    impatient = Database.open(str(database.engine.url), busy_timeout_s=0.05)

    with database.engine.connect().execution_options(kvjobs_writing=True) as holder:
        killed(impatient, path, 1)
        with pytest.raises(TransientError, match="locked"), holder.begin():
            send(impatient, path)

    assert send(impatient, path).documents == 20
    impatient.close()


def test_a_submit_that_was_cancelled_goes_on_once_its_job_is_retried(database: Database, path: Path) -> None:
    whole, cancelled = (replace(SPEC, model_revision=f"r{next(revisions)}") for _ in range(2))
    expected = everything(database, send(database, path, spec=whole).job_id)
    killed(database, path, 2, spec=cancelled)
    jobs.cancel(database, 2)
    assert states(database)[1] == (2, "cancelled")

    assert jobs.retry(database, 2) == 12

    assert states(database)[1] == (2, "ingesting")
    assert send(database, path, spec=cancelled).prior_state is PriorState.RESUMED
    assert everything(database, 2) == expected


def test_a_submit_that_was_cancelled_before_its_first_document_is_no_dead_end(database: Database, path: Path) -> None:
    send(database, path)
    with database.writing() as connection:  # as it is between `begin` and the first batch
        begun = {"state": JobState.INGESTING, "ingested": 0, "ingest_digest": None, "ingested_at": None}
        connection.execute(update(Job).values(begun))
        for table in (Document, Shard):
            connection.execute(delete(table))
        connection.execute(update(JobCounts).values(documents=0, shards=0, shards_open=0, estimated_tokens=0))
    jobs.cancel(database, 1)

    assert jobs.retry(database, 1) == 0

    assert send(database, path).documents == 20


# changed ------------------------------------------------------------------------------------------------------------


def test_a_file_that_changed_since_the_kill_is_refused_until_the_old_job_is_given_up(
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


def test_a_file_that_changed_under_a_submit_that_was_killed_and_was_put_back_starts_anew(
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

    with pytest.raises(CorpusError, match=r"has changed since the first \d+ documents of job 1 were read"):
        send(database, path)

    assert send(database, path).documents == 20
    texts = [row["text"] for row in everything(database, 1)["Document"]]
    assert texts == [json.loads(line)["text"] for line in data.splitlines()]


def test_a_file_that_was_restored_goes_on(database: Database, path: Path) -> None:
    data = path.read_bytes()
    killed(database, path)
    path.write_bytes(data + b"\n")
    with pytest.raises(CorpusError, match="restore the file"):
        send(database, path)
    path.write_bytes(data)

    assert send(database, path).prior_state == PriorState.RESUMED


def test_another_file_or_spec_is_not_taken_for_a_change(database: Database, path: Path) -> None:
    killed(database, path)
    other = path.with_name("other.jsonl")
    other.write_bytes(corpus_of("x"))

    assert send(database, other).prior_state == PriorState.NEW
    path.write_bytes(corpus_of("y"))
    assert send(database, path, spec=replace(SPEC, model_revision="r2")).prior_state == PriorState.NEW


# two at once --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches_of_other", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_two_submits_of_one_corpus_make_one_job(
    database: Database, path: Path, after: int, batches_of_other: int
) -> None:
    reference = replace(SPEC, model_revision="reference")
    expected = everything(database, send(database, path, spec=reference).job_id)
    told = count(1)

    def let_the_other_in(progress: IngestProgress) -> None:
        if next(told) == after:
            with suppress(Killed):
                send(database, path, on_progress=kill_after(batches_of_other) if batches_of_other < 4 else None)

    first = send(database, path, on_progress=let_the_other_in)

    assert (first.state, first.documents) == (JobState.RUNNING, 20)
    assert everything(database, first.job_id) == expected
    assert len(states(database)) == 2


def test_submits_in_threads_make_one_job(database: Database, path: Path) -> None:
    path.write_bytes(corpus_of(*(str(number % 90) for number in range(100))))
    made: list[SubmittedJob] = []

    def run() -> None:
        own = Database.open(str(database.engine.url))
        made.append(send(own, path))
        own.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {(one.job_id, one.state, one.documents, one.rejected) for one in made} == {(1, JobState.RUNNING, 100, 10)}
    assert [one.prior_state for one in made].count(PriorState.NEW) == 1
    with database.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(Document)) == 100


def test_a_submit_stops_when_its_job_is_cancelled(database: Database, path: Path) -> None:
    with pytest.raises(KvjobsError, match="job 1 was cancelled or abandoned") as caught:
        send(database, path, on_progress=lambda progress: cancel_once(database))

    assert caught.value.exit_code == 1
    assert states(database) == [(1, "cancelled")]
    assert len(everything(database, 1)["Document"]) == 6


def cancel_once(database: Database) -> None:
    if states(database) == [(1, "ingesting")]:
        jobs.cancel(database, 1)


def test_a_submit_stops_when_its_job_starts_anew_behind_it(database: Database, path: Path) -> None:
    def start_anew(progress: IngestProgress) -> None:
        lifecycle.abandon(database, 1, "somebody gave it up")
        killed(database, path, 1)

    with pytest.raises(KvjobsError, match="started again"):
        send(database, path, on_progress=lambda p: start_anew(p) if p.documents > 6 else None)

    assert send(database, path).documents == 20


def test_a_submit_stops_when_its_job_is_given_up_or_removed(database: Database, path: Path) -> None:
    with pytest.raises(KvjobsError, match=r"abandoned .*somebody gave it up"):
        send(database, path, on_progress=lambda progress: lifecycle.abandon(database, 1, "somebody gave it up"))
    with pytest.raises(KvjobsError, match="job 1 was removed"):
        send(database, path, on_progress=lambda progress: lifecycle.remove(database, 1))

    assert states(database) == []


# given up -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["abandon", "remove"])
def test_an_ingest_killed_while_it_is_given_up_starts_from_nothing(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    expected = everything(database, send(database, path, spec=replace(SPEC, model_revision="reference")).job_id)
    killed(database, path, 3)

    def die(*args: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "_remove_documents", die)
        with pytest.raises(Killed):
            lifecycle.abandon(database, 2, "why") if verb == "abandon" else lifecycle.remove(database, 2)
    left = everything(database, 2)
    assert (len(left["Document"]), left["Shard"], left["JobCounts"][0]["documents"]) == (18, [], 0)

    anew = send(database, path, name="nightly")

    assert (anew.job_id, anew.prior_state, anew.name) == (2, PriorState.NEW, "nightly")
    assert everything(database, 2) == expected


def test_only_an_unfinished_ingest_can_be_given_up(database: Database, path: Path) -> None:
    send(database, path)
    before = everything(database, 1)

    lifecycle.abandon(database, 1, "why")
    lifecycle.remove(database, 1)

    assert everything(database, 1) == before


def test_documents_are_removed_in_pieces(database: Database, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "ROWS_PER_DELETE", 7)
    killed(database, path, 3)
    with database.writing() as connection:
        connection.execute(update(Job).values(name="nightly"))

    lifecycle.remove(database, 1)

    assert states(database) == []
    assert everything(database, 1) == {"Document": [], "Shard": [], "JobCounts": [], "Job": []}
