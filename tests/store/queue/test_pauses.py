"""The time that a job takes is without that in which it was paused, or had ended before a retry."""

import pytest
from sqlalchemy import update

from jobs.store.database import Database
from jobs.store.jobs import jobs_paused_for, pause, resume, retry
from jobs.store.queue.leases import refuse
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import DocumentStatus
from jobs.store.schema.tables import Job
from tests.rows import AddJob, AddWaitingJob, Line
from tests.store.leasing import take


def summary(database: Database, job_id: int) -> JobSummary:
    with database.reading() as connection:
        return find_job(connection, str(job_id))


def set_times(database: Database, job_id: int, **seconds_ago: float) -> None:
    with database.writing() as connection:
        times = {name: db_time(-seconds) for name, seconds in seconds_ago.items()}
        connection.execute(update(Job).where(Job.id == job_id).values(times))


def test_the_time_of_a_paused_job_does_not_grow(database: Database, add_job: AddJob) -> None:
    job_id = add_job(Line("a", "甲"), Line("b"))
    pause(database, job_id, "lunch")
    set_times(database, job_id, started_at=100, paused_at=60)

    pause(database, job_id, "a longer lunch")  # it is paused already

    job = summary(database, job_id)
    assert job.paused_at is not None
    assert job.started_at is not None
    assert job.elapsed_s == (job.paused_at - job.started_at).total_seconds()
    assert job.elapsed_s < 60 < (job.read_at - job.started_at).total_seconds()


def test_a_job_that_goes_on_has_not_worked_in_its_pause(database: Database, add_job: AddJob) -> None:
    job_id = add_job(Line("a", "甲"), Line("b"))
    for _ in range(2):
        pause(database, job_id)
        set_times(database, job_id, started_at=1000, paused_at=60)
        resume(database, job_id)

    job = summary(database, job_id)
    assert job.started_at is not None
    assert (job.paused_at, job.idle_s >= 120) == (None, True)
    assert job.elapsed_s == pytest.approx((job.read_at - job.started_at).total_seconds() - job.idle_s)


def test_a_pause_before_the_first_lease_is_no_part_of_the_time(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job_id = add_waiting_job()
    pause(database, job_id)
    set_times(database, job_id, paused_at=60)
    resume(database, job_id)

    assert summary(database, job_id).idle_s == 0


def test_a_retried_job_has_not_worked_since_its_end(database: Database, add_job: AddJob) -> None:
    job_id = add_job(Line("a", "甲"), Line("b", status=DocumentStatus.FAILED), finished_s_ago=500)

    retry(database, job_id)

    job = summary(database, job_id)
    assert job.idle_s >= 500
    assert job.elapsed_s is not None
    assert job.elapsed_s < 500


def test_a_pause_by_a_worker_is_one_too(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job_id = add_waiting_job()

    refuse(database, take(database), "the model is broken")

    assert summary(database, job_id).paused_at is not None


def test_jobs_are_found_by_the_beginning_of_the_reason_for_which_they_are_paused(
    database: Database, add_job: AddJob
) -> None:
    waiting, other = add_job(Line("a")), add_job(Line("b"))
    pause(database, waiting, "the disk of 100% is full: /a")
    pause(database, other, "the disk of 100 x is full: /a")

    assert jobs_paused_for(database, "the disk of 100% is full: ") == [waiting]
    resume(database, waiting)
    assert jobs_paused_for(database, "the disk of 100% is full: ") == []
