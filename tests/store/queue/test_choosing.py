"""Which shard a worker leases: by priority, loaded models and queues; never one that another worker is leasing."""

import threading

import pytest
from sqlalchemy import event

from jobs.queues import Queues
from jobs.store.database import Database
from jobs.store.queue import deaths, leases
from jobs.store.queue.leases import SUSPECT_AFTER
from tests.rows import AddWaitingJob


def job_of(
    database: Database,
    queues: Queues = Queues(),  # noqa: B008
    warm: tuple[str, ...] = (),
    first_job: int | None = None,
) -> int | None:
    work = leases.lease(database, 1, 0, 60.0, queues=queues, warm=warm, first_job=first_job)
    return None if work is None else work.job_id


def test_a_loaded_model_goes_before_an_older_job_but_not_before_a_higher_priority(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    old = add_waiting_job(documents=1, model_revision="cold")
    warm = add_waiting_job(documents=1, model_revision="warm")
    urgent = add_waiting_job(documents=1, model_revision="cold", priority=10)

    assert [job_of(database, warm=("warm",)) for _ in range(4)] == [urgent, warm, old, None]


def test_a_worker_that_was_started_for_a_job_serves_it_before_any_other(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    urgent, older = add_waiting_job(documents=1, priority=10, model_revision="warm"), add_waiting_job(documents=1)
    mine = add_waiting_job(documents=2, per_shard=1, priority=-10)
    elsewhere = add_waiting_job(documents=1, queue="gpu")

    assert [job_of(database, warm=("warm",), first_job=mine) for _ in range(5)] == [mine, mine, urgent, older, None]
    assert job_of(database, first_job=elsewhere) is None


def test_a_gpu_job_waits_for_a_worker_with_a_gpu(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=1, queue="gpu")

    assert job_of(database, Queues.parse("", "cpu")) is None
    assert job_of(database, Queues.parse("", "cuda:0")) == job


def test_a_worker_for_one_model_leases_only_its_shards(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=1, model="other")
    add_waiting_job(documents=1, model="mine", queue="gpu")
    mine = add_waiting_job(documents=1, model="mine")

    only_mine = Queues.parse("model:mine")
    assert [job_of(database, only_mine) for _ in range(2)] == [mine, None]


def test_a_shard_is_suspect_after_two_processes_died_on_it(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=1)
    suspect = []
    for _ in range(SUSPECT_AFTER + 1):
        work = leases.lease(database, 1, 0, 60.0)
        assert work is not None
        suspect.append(work.suspect)
        deaths.expire_workers(database, [1])

    assert suspect == [False] * SUSPECT_AFTER + [True]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_the_second_of_two_leases_takes_the_next_shard_and_does_not_wait(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=1)
    taken, go_on = threading.Event(), threading.Event()
    shards: list[int] = []

    def wait_in_transaction(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if threading.current_thread() is first and statement.startswith("WITH"):
            taken.set()
            assert go_on.wait(timeout=10)

    def lease() -> None:
        work = leases.lease(database, 1, 0, 60.0)
        assert work is not None
        shards.append(work.shard_id)

    first = threading.Thread(target=lease)
    event.listen(database.engine, "after_cursor_execute", wait_in_transaction)
    try:
        first.start()
        assert taken.wait(timeout=10)
        lease()
        assert len(shards) == 1, "the first lease is not committed yet"
    finally:
        go_on.set()
        first.join()
        event.remove(database.engine, "after_cursor_execute", wait_in_transaction)
    assert len(set(shards)) == 2
