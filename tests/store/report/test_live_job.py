"""Whether a worker is there for a job, and how fast it is now: read from the database."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.report.job_lines import list_job_lines
from jobs.store.report.live_job import LiveJob, find_live_job, list_live_jobs, list_unserved_jobs
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import WorkerRequest
from jobs.store.schema.tables import Job
from jobs.store.worker_registry import ask, mark_stopped, register
from tests.rows import AddJob, AddWaitingJob, Line
from tests.small_chains import KEPT, SCORED, begin
from tests.store.leasing import take, write

SILENCE_S = 60.0


def find(database: Database, job_id: int) -> LiveJob:
    with database.reading() as connection:
        return find_live_job(connection, str(job_id), SILENCE_S)


def unserved(database: Database) -> list[int]:
    with database.reading() as connection:
        return [job.job_id for job in list_unserved_jobs(connection, SILENCE_S)]


def test_a_job_waits_for_a_worker_until_one_lives_that_takes_its_shards(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job_id = add_waiting_job()
    assert (find(database, job_id).shown_state, unserved(database)) == ("waiting", [job_id])

    other = register(database, device="cpu", provider="test", lanes=1, queues="model:another")
    assert find(database, job_id).shown_state == "waiting"
    worker = register(database, device="cpu", provider="test", lanes=1)
    assert (find(database, job_id).shown_state, unserved(database)) == ("running", [])

    ask(database, worker, WorkerRequest.PAUSE, "somebody")
    assert find(database, job_id).shown_state == "waiting"
    leases.lease(database, other, 0, 60)  # as a worker that drains, it still has a shard
    assert find(database, job_id).shown_state == "running"
    mark_stopped(database, [other])
    assert find(database, job_id).shown_state == "waiting"


def test_lists_tell_jobs_that_wait_from_those_that_run(database: Database, add_waiting_job: AddWaitingJob) -> None:
    running, waiting = add_waiting_job(), add_waiting_job()
    worker = register(database, device="cpu", provider="test", lanes=1)
    with database.writing() as connection:
        connection.execute(update(Job).where(Job.id == waiting).values(queue="gpu"))
    assert worker

    def listed(*states: str, limit: int | None = None) -> tuple[Sequence[int], Sequence[int]]:
        with database.reading() as connection:
            jobs = list_live_jobs(connection, SILENCE_S, states=states, limit=limit)
            lines = list_job_lines(connection, SILENCE_S, states=states, limit=limit)
        return [job.job_id for job in jobs], [line.job_id for line in lines]

    assert listed("waiting") == ([waiting], [waiting])
    assert listed("running", limit=1) == ([running], [running])
    assert listed("waiting", "running", limit=1) == ([waiting], [waiting])


def test_the_speed_of_the_last_minute_is_that_of_recorded_batches(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job_id = add_waiting_job(documents=4, per_shard=2)
    register(database, device="cpu", provider="test", lanes=1)
    write(database, take(database))

    job = find(database, job_id)
    assert job.elapsed_s is not None
    assert job.recent_tokens_per_s == pytest.approx(job.tokens / job.elapsed_s)
    assert job.eta_s == pytest.approx(job.estimated_left * job.elapsed_s / job.estimated_done)

    with database.writing() as connection:  # it is paused for an hour
        values = {"paused": True, "paused_at": db_time(), "started_at": db_time(-3600)}
        connection.execute(update(Job).where(Job.id == job_id).values(values))
    paused = find(database, job_id)
    assert (paused.shown_state, paused.recent_tokens_per_s, paused.eta_s) == ("paused", None, None)


def test_a_chain_is_one_line_that_is_found_by_any_of_its_stages(
    database: Database, add_job: AddJob, tmp_path: Path
) -> None:
    chain = begin(database, tmp_path, SCORED, KEPT)
    alone = add_job(Line("a", "甲"))

    def listed(**asked: Any) -> list[tuple[int, int]]:
        with database.reading() as connection:
            found = list_job_lines(connection, SILENCE_S, **asked)
        return [(line.job_id, len(line.stages)) for line in found]

    assert listed() == [(alone, 1), (chain[0], 3)]
    assert listed(task="filter") == [(chain[0], 3)]
    assert listed(limit=1) == [(alone, 1)]
    assert listed(before=alone, limit=1) == [(chain[0], 3)]
