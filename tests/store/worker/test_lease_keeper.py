"""The leases of the lanes of one process, which its heartbeat extends."""

import pytest
from sqlalchemy import delete, event, select

from jobs.store.database import Database
from jobs.store.queue import deaths, leases
from jobs.store.queue.work import Work
from jobs.store.schema import tables
from jobs.store.schema.states import WorkerRequest
from jobs.store.worker_registry import WorkerStats, any_alive, ask, mark_stopped, record_heartbeat, register
from tests.rows import AddWaitingJob
from worker.process.lease_keeper import LeaseKeeper


def take(database: Database, keeper: LeaseKeeper, lane: int, lease_s: float = 60.0) -> Work:
    work = leases.lease(database, keeper.worker_id, lane, lease_s)
    assert work is not None
    keeper.keep(work)
    return work


def registered_keeper(database: Database) -> LeaseKeeper:
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    return LeaseKeeper(database, worker_id, lease_s=60.0, heartbeat_s=60.0)


def keeper_of(database: Database) -> LeaseKeeper:
    return LeaseKeeper(database, 1, lease_s=60.0, heartbeat_s=60.0)


def test_a_lane_that_leased_the_expired_shard_of_another_lane_keeps_it_when_that_lane_ends(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    keeper = keeper_of(database)
    slept = take(database, keeper, lane=0, lease_s=-1.0)
    deaths.expire(database)
    taken = take(database, keeper, lane=1, lease_s=-1.0)
    assert taken.shard_id == slept.shard_id

    keeper.let_go(slept)
    keeper.record_heartbeat(WorkerStats())

    assert deaths.expire(database) == 0  # the heartbeat has extended it
    assert not keeper.must_stop(taken)


def test_of_two_lanes_with_leases_of_one_shard_only_the_older_has_to_stop(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    keeper = keeper_of(database)
    slept = take(database, keeper, lane=0, lease_s=-1.0)
    deaths.expire(database)
    taken = take(database, keeper, lane=1)

    keeper.record_heartbeat(WorkerStats())

    assert (keeper.must_stop(slept), keeper.must_stop(taken)) == (True, False)
    with database.reading() as connection:
        assert connection.execute(select(tables.Shard.job_id)).scalar() == job


def test_a_heartbeat_for_all_lanes_is_one_transaction(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=2, per_shard=1)
    keeper = registered_keeper(database)
    works = [take(database, keeper, lane) for lane in (0, 1)]
    commits: list[object] = []
    count = commits.append
    event.listen(database.engine, "commit", count)

    keeper.record_heartbeat(WorkerStats())

    event.remove(database.engine, "commit", count)
    assert len(commits) == 1
    assert not any(map(keeper.must_stop, works))


def test_a_paused_worker_gives_shards_back_and_takes_none_until_it_is_resumed(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job()
    keeper = registered_keeper(database)
    work = take(database, keeper, lane=0)

    ask(database, keeper.worker_id, WorkerRequest.PAUSE, "somebody")
    keeper.record_heartbeat(WorkerStats())
    assert (keeper.takes_work(), keeper.should_release(work), keeper.is_draining()) == (False, True, False)

    ask(database, keeper.worker_id, WorkerRequest.WORK, "somebody")
    keeper.record_heartbeat(WorkerStats())
    assert (keeper.takes_work(), keeper.should_release(work)) == (True, False)


def test_a_draining_worker_keeps_the_shards_in_hand_and_takes_no_others(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job()
    keeper = registered_keeper(database)
    work = take(database, keeper, lane=0)

    ask(database, keeper.worker_id, WorkerRequest.DRAIN, "somebody")
    keeper.record_heartbeat(WorkerStats())

    assert (keeper.takes_work(), keeper.should_release(work), keeper.is_draining()) == (False, False, True)


def test_a_process_that_replaces_a_paused_one_is_paused(database: Database) -> None:
    first = register(database, device="cpu", provider="test", lanes=1)
    ask(database, first, WorkerRequest.PAUSE, "somebody")

    second = register(database, device="cpu", provider="test", lanes=1, replaces=first)

    assert record_heartbeat(database, second, WorkerStats())[1] is WorkerRequest.PAUSE


def test_a_stopping_worker_sends_no_heartbeat(database: Database) -> None:
    """A heartbeat would clear the recorded time of its stop."""
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    keeper = LeaseKeeper(database, worker_id, lease_s=60.0, heartbeat_s=60.0)
    keeper.close()
    mark_stopped(database, [worker_id])

    keeper.record_heartbeat(WorkerStats())

    assert not any_alive(database, 60)


def test_a_worker_missing_from_a_restored_database_registers_again(database: Database) -> None:
    def register_worker() -> int:
        return register(database, device="cpu", provider="test", lanes=1)

    keeper = LeaseKeeper(database, register_worker(), lease_s=60.0, heartbeat_s=60.0, register=register_worker)
    with database.writing() as connection:
        connection.execute(delete(tables.Worker))

    keeper.record_heartbeat(WorkerStats())
    keeper.record_heartbeat(WorkerStats())

    with database.reading() as connection:
        assert connection.execute(select(tables.Worker.id)).scalars().all() == [keeper.worker_id]
    assert any_alive(database, silence_s=60.0)


def test_lanes_that_wait_are_woken_once_when_the_worker_is_asked_to_drain(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = registered_keeper(database)
    recalled: list[bool] = []
    monkeypatch.setattr(keeper.wakeup, "recall", lambda: recalled.append(keeper.is_draining()))
    keeper.record_heartbeat(WorkerStats())
    assert recalled == []

    ask(database, keeper.worker_id, WorkerRequest.DRAIN, "ann@node-1")
    for _ in range(2):
        keeper.record_heartbeat(WorkerStats())

    assert recalled == [True]
