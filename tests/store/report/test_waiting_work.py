"""What waits, and whether anybody takes it: the difference between a busy fleet and a stuck one."""

from sqlalchemy import insert, update

from jobs.store.database import Database
from jobs.store.report.waiting_work import WaitingWork, WorkProgress, check_progress, waiting_work
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ShardState
from jobs.system.process import ProcessId
from tests.messages import line_with
from tests.rows import AddWaitingJob, enter


def progress(database: Database, max_wait_s: float = 120) -> WorkProgress:
    with database.reading() as connection:
        return check_progress(connection, max_wait_s)


def age(database: Database, seconds: float) -> None:
    with database.writing() as connection:
        connection.execute(update(tables.Shard).values(available_at=db_time(-seconds)))


def lease(database: Database, shard_id: int, until_s: float) -> None:
    owner = enter(database, ProcessId("another machine", 1, 1.0))
    with database.writing() as connection:
        held = {"state": ShardState.LEASED, "lease_owner": owner, "lane": 0, "lease_until": db_time(until_s)}
        connection.execute(update(tables.Shard).where(tables.Shard.id == shard_id).values(**held))


def happen(database: Database, job_id: int, event: str, seconds_ago: float) -> None:
    with database.writing() as connection:
        whose = {"job_id": job_id, "shard_id": 1, "epoch": 1, "event": event}
        connection.execute(insert(tables.ShardEvent).values(**whose, at=db_time(-seconds_ago)))


def test_shards_are_counted_by_queue_and_the_oldest_is_timed(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=6, per_shard=2)
    age(database, 300)
    add_waiting_job(documents=6, per_shard=3)
    add_waiting_job(documents=1, queue="gpu")

    with database.reading() as connection:
        cpu, gpu = waiting_work(connection)

    assert (cpu.queue, cpu.shards, gpu.queue, gpu.shards) == ("cpu", 5, "gpu", 1)
    assert 300 <= cpu.oldest_s < 340
    assert 0 <= gpu.oldest_s < 40


def test_work_that_nobody_takes_is_stuck(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=6, per_shard=3)

    assert not progress(database).is_stuck
    age(database, 300)
    found = progress(database)
    assert found.is_stuck
    assert found.sentence.startswith(
        "No worker has taken any of 2 shards in queue cpu for 120 s; the oldest has waited for 5 min 0"
    )
    assert not progress(database, max_wait_s=600).is_stuck


def test_work_that_waits_while_workers_are_busy_is_not_stuck(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=6, per_shard=3)
    age(database, 300)
    lease(database, 1, until_s=60)

    assert not progress(database).is_stuck
    assert "busy" in progress(database).sentence


def test_a_lease_that_has_run_out_is_no_progress(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=6, per_shard=3)
    age(database, 300)
    lease(database, 1, until_s=-10)

    assert progress(database).is_stuck


def test_work_of_a_queue_that_nobody_serves_is_stuck_although_others_work(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    busy = add_waiting_job(documents=6, per_shard=3)
    add_waiting_job(documents=1, queue="gpu")
    age(database, 300)
    lease(database, 1, until_s=60)
    happen(database, busy, "recorded", seconds_ago=1)

    found = progress(database)

    assert found.is_stuck
    assert line_with(found.sentence, "1 shard", "queue gpu")
    assert "cpu" not in found.sentence


def test_only_taking_and_recording_is_progress_and_only_lately(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job_id = add_waiting_job(documents=6, per_shard=3)
    age(database, 300)

    happen(database, job_id, "expired", seconds_ago=1)
    happen(database, job_id, "recorded", seconds_ago=200)
    assert progress(database).is_stuck
    happen(database, job_id, "leased", seconds_ago=100)
    assert not progress(database).is_stuck


def test_paused_and_cancelled_jobs_have_no_work(database: Database, add_waiting_job: AddWaitingJob) -> None:
    paused, cancelled = add_waiting_job(), add_waiting_job()
    age(database, 300)
    with database.writing() as connection:
        jobs = tables.Job.__table__
        connection.execute(update(jobs).where(jobs.c.id == paused).values(paused=True))
        connection.execute(update(jobs).where(jobs.c.id == cancelled).values(cancel_requested_at=db_time()))

    assert progress(database) == WorkProgress(False, "No work waits.")
    with database.reading() as connection:
        assert waiting_work(connection) == list[WaitingWork]()
