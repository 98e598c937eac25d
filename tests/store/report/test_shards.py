"""The shards of a job, page by page; what happened to them; who serves the job."""

from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.report.shards import list_shards, next_shard_id, recent_events, shard_events
from jobs.store.report.waiting_work import Service, service_of
from jobs.store.schema.states import ShardState
from jobs.store.worker_registry import register
from tests.rows import AddWaitingJob, dead_process, enter


def test_pages_of_waiting_shards_follow_the_corpus(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job_id = add_waiting_job(documents=10, per_shard=2)
    add_waiting_job()

    with database.reading() as connection:
        first = list_shards(connection, job_id, ShardState.READY, limit=3)
        rest = list_shards(connection, job_id, ShardState.READY, after=first[-1].shard_id, limit=3)
        assert next_shard_id(connection, job_id) == first[0].shard_id
    assert [(shard.start, shard.stop) for shard in first + rest] == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    assert all(shard.lease_left_s is None and shard.waits_s >= 0 for shard in first)


def test_a_leased_shard_has_its_worker_and_what_is_left_of_the_lease(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job_id = add_waiting_job()
    worker_id = register(database, device="cpu", provider="test", lanes=2)
    work = leases.lease(database, worker_id, 1, 60.0)

    with database.reading() as connection:
        (shard,) = list_shards(connection, job_id, ShardState.LEASED)
        events = shard_events(connection, job_id, shard.shard_id)
    assert work
    assert (shard.shard_id, shard.worker_id, shard.lane, shard.attempts) == (work.shard_id, worker_id, 1, 1)
    assert shard.host
    assert 50 < (shard.lease_left_s or 0) <= 60
    assert shard.in_flight == len(work.batches[0])
    assert [(event.event, event.epoch, event.worker_id) for event in events] == [("leased", 1, worker_id)]


def test_the_newest_events_of_a_job_come_first(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job_id, other = add_waiting_job(), add_waiting_job()
    for first_job in (job_id, other, job_id):
        leases.lease(database, 1, 0, 60.0, first_job=first_job)

    with database.reading() as connection:
        events = recent_events(connection, job_id, limit=10)
        assert len(recent_events(connection, job_id, limit=1)) == 1
    assert len(events) == 2
    assert events[0].event_id > events[1].event_id


def test_only_live_workers_of_the_queue_serve_a_job(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job_id = add_waiting_job(model="m")
    worker_id = register(database, device="cpu", provider="test", lanes=2)
    register(database, device="cpu", provider="test", lanes=4, queues="model:other")
    enter(database, dead_process())
    leases.lease(database, worker_id, 0, 60.0, first_job=job_id)

    with database.reading() as connection:
        found = service_of(connection, "cpu", "m", 60.0)
        gpu = service_of(connection, "gpu", "m", 60.0)
    assert found == Service(
        live=2, with_gpu=0, queues=("cpu", "model:other"), serving=1, held_back=0, lanes=2, busy_lanes=1
    )
    assert (found.free_lanes, gpu.serving) == (1, 0)
