"""The reaper frees the shards of workers whose process is dead or whose heartbeat has stopped."""

from sqlalchemy import select, update

from jobs.corpus.corpus import Corpus
from jobs.dispatch.reaper import reap
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.queue.deaths import MAX_CRASHES
from jobs.store.schema import tables
from jobs.store.worker_registry import WorkerStats, any_alive, mark_stopped, record_heartbeat, register
from jobs.system.process import ProcessId
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.rows import AddWaitingJob, dead_process, enter

BEAMS = JobSpec(task=Task.TRANSLATE, model="m", model_revision="r", options=TranslateOptions(beam_size=4, n_best=2))


def shard_state(database: Database) -> str:
    with database.reading() as connection:
        return str(connection.execute(select(tables.Shard.state)).scalar_one())


def test_the_shards_of_a_process_that_is_dead_are_free_at_once(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    worker_id = enter(database, dead_process())
    leases.lease(database, worker_id, 0, lease_s=3600)

    assert reap(database) == 1

    assert shard_state(database) == "ready"
    assert reap(database) == 0
    assert not any_alive(database, 60)


def test_a_job_whose_workers_die_is_paused_with_the_command_that_tries_its_documents_alone(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2, spec=BEAMS)
    with database.writing() as connection:
        connection.execute(update(tables.Job).values(reading=Corpus(path="/data/corpus.jsonl").reading))
    for _ in range(MAX_CRASHES):
        leases.lease(database, enter(database, dead_process()), 0, lease_s=3600)
        reap(database)

    with database.reading() as connection:
        reason = connection.execute(select(tables.Job.reason)).scalar_one()

    assert (
        "&& kvjobs submit job-1-suspects.jsonl --task translate --model opus-mt-en-zh --beam-size 4 --n-best 2 --wait; "
        in reason
    )


def test_a_live_process_keeps_its_shards_until_its_lease_expires(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    work = leases.lease(database, worker_id, 0, lease_s=3600)
    assert work is not None
    assert any_alive(database, 60)
    assert reap(database) == 0

    with database.writing() as connection:
        leases.renew(connection, -1.0, [work])

    assert reap(database) == 1


def test_a_process_on_another_machine_is_judged_by_its_heartbeat(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    worker_id = enter(database, ProcessId("another boot", 1, 1.0))
    leases.lease(database, worker_id, 0, lease_s=3600)

    assert reap(database) == 0
    assert any_alive(database, silence_s=60)
    assert not any_alive(database, silence_s=-1)


def test_a_live_worker_that_was_marked_as_stopped_comes_back_with_its_next_heartbeat(database: Database) -> None:
    worker_id = enter(database, dead_process())  # the live worker is taken for a dead process
    reap(database)
    assert not any_alive(database, 60)

    record_heartbeat(database, worker_id, WorkerStats())

    assert any_alive(database, 60)
    assert reap(database) == 0
    assert any_alive(database, 60), "its process was checked again"


def test_a_worker_of_an_unknown_machine_counts_as_alive_by_its_heartbeat(database: Database) -> None:
    enter(database, ProcessId("", dead_process().pid, 1.0))

    reap(database)

    assert any_alive(database, 60)
    assert not any_alive(database, -1)


def test_a_worker_marked_as_stopped_does_not_count_as_alive(database: Database) -> None:
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    record_heartbeat(database, worker_id, WorkerStats(kv_bytes=7))

    mark_stopped(database, [worker_id])

    assert not any_alive(database, 60)
    with database.reading() as connection:
        assert connection.execute(select(tables.Worker.kv_bytes)).scalar() == 7
