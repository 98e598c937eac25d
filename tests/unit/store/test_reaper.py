import subprocess
import sys

from sqlalchemy import select

from jobs.dispatch.reaper import reap
from jobs.process import ProcessId
from jobs.store import leases, tables
from jobs.store.database import Database
from jobs.store.workers import Warmth, any_alive, beat, register, retire
from tests.unit.store.conftest import MakeJob


def enter(database: Database, process: ProcessId) -> int:
    """A worker's row as that process would have made it."""
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    with database.writing() as connection:
        connection.execute(
            tables.Worker.__table__.update()
            .where(tables.Worker.id == worker_id)
            .values(machine=process.machine, pid=process.pid, process_started=process.started)
        )
    return worker_id


def shard_state(database: Database) -> str:
    with database.reading() as connection:
        return str(connection.execute(select(tables.Shard.state)).scalar_one())


def test_the_shards_of_a_process_that_is_dead_are_free_at_once(database: Database, make_job: MakeJob) -> None:
    make_job(documents=2, per_shard=2)
    worker_id = enter(database, ended_process())
    leases.lease(database, worker_id, 0, lease_s=3600)

    assert reap(database) == 1

    assert shard_state(database) == "ready"
    assert reap(database) == 0
    assert not any_alive(database, 60)


def test_a_living_process_keeps_its_shards_until_its_lease_runs_out(database: Database, make_job: MakeJob) -> None:
    make_job(documents=2, per_shard=2)
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    work = leases.lease(database, worker_id, 0, lease_s=3600)
    assert work is not None
    assert any_alive(database, 60)
    assert reap(database) == 0

    leases.heartbeat(database, -1.0, [work])

    assert reap(database) == 1


def test_nothing_is_known_of_a_process_on_another_machine(database: Database, make_job: MakeJob) -> None:
    make_job(documents=2, per_shard=2)
    worker_id = enter(database, ProcessId("another boot", 1, 1.0))
    leases.lease(database, worker_id, 0, lease_s=3600)

    assert reap(database) == 0
    assert any_alive(database, silence_s=60)
    assert not any_alive(database, silence_s=-1)


def test_a_number_that_was_given_to_another_process_does_not_keep_the_dead_alive() -> None:
    me = ProcessId.mine()

    assert not me.is_dead()
    assert ProcessId(me.machine, me.pid, me.started - 1).is_dead()
    assert ended_process().is_dead()


def test_a_zombie_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    started = ProcessId(ProcessId.mine().machine, process.pid, 1.0)
    assert process.stdout is not None
    process.stdout.read()  # it has ended; nobody has waited for it yet

    assert started.is_dead()
    process.wait()
    process.stdout.close()


def test_a_worker_that_retired_is_not_alive(database: Database) -> None:
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    beat(database, worker_id, Warmth(kv_bytes=7))

    retire(database, [worker_id])

    assert not any_alive(database, 60)
    with database.reading() as connection:
        assert connection.execute(select(tables.Worker.kv_bytes)).scalar() == 7


def ended_process() -> ProcessId:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return ProcessId(ProcessId.mine().machine, process.pid, 1.0)
