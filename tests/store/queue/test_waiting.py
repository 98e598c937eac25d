"""How many hints are sent, and to which queues."""

from sqlalchemy import update

from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.queue.waiting import (
    JobsAhead,
    has_expired_lease,
    hints_wanted,
    is_served,
    jobs_ahead,
)
from jobs.store.schema.states import DocumentStatus, WorkerRequest
from jobs.store.schema.tables import Worker
from jobs.store.worker_registry import ask, mark_stopped, register
from tests.rows import AddJob, Line


def test_only_live_workers_and_leasable_jobs_are_counted(database: Database, add_job: AddJob) -> None:
    add_job(Line("a"))
    add_job(Line("a"), paused=True)
    add_job(Line("a", "甲"))
    assert hints_wanted(database, 60) == {}

    worker_id = register(database, device="cpu", provider="test", lanes=3)
    assert hints_wanted(database, 60) == {"cpu": 1}
    assert hints_wanted(database, -1) == {}

    mark_stopped(database, [worker_id])
    assert hints_wanted(database, 60) == {}


def test_without_leases_none_has_expired(database: Database, add_job: AddJob) -> None:
    add_job(Line("a"))

    assert not has_expired_lease(database)


def test_a_queue_is_served_only_by_live_workers_with_the_device_or_model_it_needs(database: Database) -> None:
    register(database, device="cpu", provider="test", lanes=1, queues="model:m")

    assert is_served(database, "cpu", "m", 60)
    assert not is_served(database, "gpu", "m", 60)
    assert not is_served(database, "cpu", "n", 60)
    assert not is_served(database, "cpu", "m", -1)
    ask(database, 1, WorkerRequest.PAUSE, "somebody")
    assert not is_served(database, "cpu", "m", 60), "it takes no work"
    ask(database, 1, WorkerRequest.WORK, "somebody")
    assert is_served(database, "cpu", "m", 60)
    with database.writing() as connection:
        connection.execute(update(Worker).values(process_started=Worker.process_started - 1))
    assert not is_served(database, "cpu", "m", 60), "the process is dead, although its last heartbeat is recent"


def test_jobs_ahead_are_those_that_a_lease_takes_before(database: Database, add_job: AddJob) -> None:
    """With a chain whose second stage is newer than other jobs, and one of a high priority."""
    stages = {"chain": 2, "stage": 1}, {"chain": 2, "stage": 2}, {"chain": 5, "stage": 2, "priority": 5}
    jobs = [add_job(Line("a"), **columns) for columns in ({}, stages[0], {}, stages[1], stages[2])]
    ahead = {job: ahead_of(database, job).jobs for job in jobs}

    leased = []
    while work := leases.lease(database, 1, 0, 60.0):
        leased.append(work.job_id)

    assert leased == [5, 4, 1, 2, 3]
    assert [ahead[job] for job in leased] == [0, 1, 2, 2, 4], "the stages of one chain do not wait for one another"


def ahead_of(database: Database, job_id: int) -> JobsAhead:
    with database.reading() as connection:
        return jobs_ahead(connection, job_id)


def test_jobs_ahead_in_a_queue_are_the_older_and_the_more_urgent_ones(database: Database, add_job: AddJob) -> None:
    older = [Line("a", "甲"), Line("b"), Line("c", status=DocumentStatus.REJECTED), Line("d")]
    add_job(*older)
    add_job(Line("a"), priority=-10)
    add_job(Line("a"), queue="gpu")
    add_job(Line("a"), paused=True)
    add_job(Line("a", "甲"))
    mine = add_job(Line("a"))
    assert ahead_of(database, mine) == JobsAhead(jobs=1, documents=2)

    add_job(Line("a"), Line("b"), priority=10)
    add_job(Line("a"))
    assert ahead_of(database, mine) == JobsAhead(jobs=2, documents=4)
    assert ahead_of(database, 1) == JobsAhead(jobs=1, documents=2)
    assert leases.lease(database, 1, 0, 60.0, first_job=mine)
    assert ahead_of(database, mine) == JobsAhead(jobs=0, documents=0), "a worker holds it"
