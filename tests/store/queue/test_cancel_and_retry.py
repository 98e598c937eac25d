"""Cancel and retry: results are kept, and documents that a worker holds are not lost."""

import itertools

import pytest

from jobs.errors import NotFoundError, SpecError
from jobs.outcome import Failed
from jobs.store import jobs
from jobs.store.database import Database
from jobs.store.jobs import cancel, pause, resume, retry
from jobs.store.queue import leases
from jobs.store.queue.batches import MAX_TOKENS
from jobs.store.schema import tables
from tests.rows import AddWaitingJob, translated
from tests.store.leasing import LEASE_S, contradictory, counts, take, value, write


def test_a_failed_document_fails_alone_and_retry_reopens_it(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=3, per_shard=3)
    write(database, take(database), outcomes=[translated(), Failed("engine-error", "it broke"), translated()])
    row = counts(database, job)
    assert (row.succeeded, row.failed, row.estimated_done) == (2, 1, 30)
    assert value(database, tables.Document.error, tables.Document.status == "failed") == "it broke"

    assert retry(database, job) == 1

    assert value(database, tables.Job.state, tables.Job.id == job) == "running"
    again = take(database)
    assert [d.position for d in again.batches[0]] == [1]
    write(database, again)
    row = counts(database, job)
    assert (row.succeeded, row.failed, row.shards_open, row.estimated_done) == (3, 0, 0, 30)
    assert value(database, tables.Job.state, tables.Job.id == job) == "done"


def test_a_document_that_is_reopened_while_its_shard_is_leased_is_not_lost(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=4, per_shard=4, tokens=MAX_TOKENS // 2)
    work = take(database)
    write(database, work, 0, outcomes=[Failed("engine-error", "x"), translated()])
    assert retry(database, job) == 1

    write(database, work, 1)

    assert [d.position for d in take(database).batches[0]] == [0]


def test_cancel_keeps_results_and_cancels_the_rest(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=6, per_shard=2, rejected=(5,))
    write(database, take(database))
    held = take(database)

    assert cancel(database, job) == 1  # one document of the last shard; the leased shard ends with its worker
    assert value(database, tables.Job.state, tables.Job.id == job) == "running"
    leases.release(database, held)

    row = counts(database, job)
    assert (row.succeeded, row.cancelled, row.rejected, row.shards_open) == (2, 3, 1, 0)
    assert value(database, tables.Job.state, tables.Job.id == job) == "cancelled"


def test_retry_of_a_cancelled_job_reopens_documents_without_a_result(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=6, per_shard=2, rejected=(5,))
    write(database, take(database))
    cancel(database, job)
    assert value(database, tables.Job.state, tables.Job.id == job) == "cancelled"

    assert retry(database, job) == 3

    assert value(database, tables.Job.state, tables.Job.id == job) == "running"
    assert contradictory(database, job) == []
    row = counts(database, job)
    assert (row.succeeded, row.cancelled, row.rejected, row.shards_open) == (2, 0, 1, 2)
    while work := leases.lease(database, 1, 0, LEASE_S):
        write(database, work)
    row = counts(database, job)
    assert (row.succeeded, row.cancelled, row.estimated_done) == (5, 0, 50)
    assert value(database, tables.Job.state, tables.Job.id == job) == "done"
    assert contradictory(database, job) == []


def test_a_cancel_stops_if_its_job_is_retried_meanwhile(
    database: Database, add_waiting_job: AddWaitingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job with many shards is cancelled in several transactions; a retry may come between two of them."""
    job = add_waiting_job(documents=4, per_shard=1)
    monkeypatch.setattr(jobs, "SHARDS_A_TRANSACTION", 1)
    transactions, begin = itertools.count(1), database.writing

    def writing() -> object:
        if next(transactions) == 3:  # the first wrote the request, the second cancelled one shard
            assert retry(database, job) == 1
        return begin()

    with monkeypatch.context() as patch:
        patch.setattr(database, "writing", writing)
        assert cancel(database, job) == 1

    assert value(database, tables.Job.state, tables.Job.id == job) == "running"
    row = counts(database, job)
    assert (row.cancelled, row.shards_open) == (0, 4)
    assert contradictory(database, job) == []


def test_a_batch_computed_while_its_job_is_cancelled_is_recorded(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    held = take(database)
    assert cancel(database, job) == 0

    write(database, held)

    assert counts(database, job).succeeded == 2
    assert value(database, tables.Job.state, tables.Job.id == job) == "done"


def test_an_ended_job_cannot_be_paused_or_cancelled(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=1)
    write(database, take(database))

    for verb in (pause, resume, cancel):
        with pytest.raises(SpecError, match="done"):
            verb(database, job)
    with pytest.raises(NotFoundError):
        cancel(database, 99)
