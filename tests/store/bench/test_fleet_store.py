"""The benchmark of many workers still runs their code, and counts what they do."""

import time

from sqlalchemy import func, select

from bench.fleet.simulated_worker import Load, SimulatedWorker
from bench.fleet.store_calls import StoreCalls
from bench.fleet.table_sizes import per_document
from bench.fleet_store import submit_jobs
from jobs.store.database import Database
from jobs.store.schema import tables
from jobs.tasks.shared_options import Timing
from jobs.tasks.translate import TranslateOptions
from tests.databases import ON_POSTGRESQL
from tests.store.leasing import contradictory

WITHIN_S = 60.0


def jobs_left(database: Database) -> int:
    with database.reading() as connection:
        return connection.execute(select(func.count(tables.Job.id)).where(tables.Job.state == "running")).scalar_one()


@ON_POSTGRESQL
def test_simulated_workers_process_real_jobs_and_every_call_is_timed(database: Database) -> None:
    submit_jobs(database, documents=300, jobs=2, options=TranslateOptions(timing=Timing.BATCHES))
    load = Load(pace_s=(0.0, 0.0), with_parent=False)
    url = database.engine.url.render_as_string(hide_password=False)
    workers = [SimulatedWorker(url, number, load, app=None) for number in range(3)]
    calls = StoreCalls()
    calls.count_between(0.0, float("inf"))

    with calls.installed():
        for worker in workers:
            worker.start()
        deadline = time.monotonic() + WITHIN_S
        while jobs_left(database) and time.monotonic() < deadline:
            time.sleep(0.02)
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(WITHIN_S)

    with database.reading() as connection:
        batches = connection.execute(select(func.count(tables.rollup_tables.RecordedBatch.id))).scalar_one()
        shards = connection.execute(select(func.count(tables.Shard.id))).scalar_one()
    assert calls.documents == 300
    assert (len(calls.seconds["record"]), len(calls.seconds["lease"])) == (batches, shards)
    assert not calls.errors
    sizes = per_document(url)
    assert {"documents", "translations", "steps"} <= set(sizes["bytes/document"])
    assert not [failure for worker in workers for failure in worker.failures]
    assert not contradictory(database, 1)
    assert not contradictory(database, 2)
