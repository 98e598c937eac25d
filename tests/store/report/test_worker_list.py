"""The list of workers: who is alive, what each lane does, and pages that follow each other."""

import json

from sqlalchemy import update

from jobs.store.database import Database
from jobs.store.report.worker_list import list_workers
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ShardState
from jobs.system.process import ProcessId
from tests.rows import AddWaitingJob, enter

ELSEWHERE = ProcessId("another machine", 4711, 1.0)


def test_a_worker_has_its_leases_its_silence_and_its_uptime(database: Database, add_waiting_job: AddWaitingJob) -> None:
    worker_id, job_id = enter(database, ELSEWHERE), add_waiting_job(documents=6, per_shard=3)
    lease = {"state": ShardState.LEASED, "lease_owner": worker_id, "lane": 1, "in_flight": json.dumps([3, 4])}
    with database.writing() as connection:
        connection.execute(update(tables.Shard).where(tables.Shard.start == 3).values(**lease))
        times = {"started_at": db_time(-3600), "heartbeat_at": db_time(-20), "buffer_allocations": 7}
        connection.execute(update(tables.Worker).values(**times))

    with database.reading() as connection:
        (fresh,) = list_workers(connection, silence_s=60)
        (stale,) = list_workers(connection, silence_s=10)

    assert (fresh.state, stale.state) == ("busy", "stale")
    assert (fresh.in_flight, fresh.buffer_allocations) == (2, 7)
    assert [(shard["job_id"], shard["lane"], shard["documents"]) for shard in fresh.shards] == [(job_id, 1, 2)]
    assert 20 <= fresh.silent_s < 50
    assert 3600 <= fresh.uptime_s < 3650


def test_pages_follow_each_other_without_a_gap(database: Database) -> None:
    ids = [enter(database, ELSEWHERE) for _ in range(5)]
    with database.writing() as connection:
        connection.execute(update(tables.Worker).where(tables.Worker.id == ids[1]).values(stopped_at=db_time()))
    seen: list[int] = []
    with database.reading() as connection:
        while page := list_workers(connection, 60, everything=True, before=seen[-1] if seen else None, limit=2):
            seen += [worker.worker_id for worker in page]
        running = [worker.worker_id for worker in list_workers(connection, 60)]

    assert seen == ids[::-1]
    assert running == [one for one in ids[::-1] if one != ids[1]]
