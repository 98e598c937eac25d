import json
import os
import subprocess
import sys

import pytest
from sqlalchemy import select

from jobs import process as process_module
from jobs.dispatch.reaper import reap
from jobs.process import ProcessId
from jobs.store import leases
from jobs.store.database import Database
from jobs.store.schema import tables
from jobs.store.worker_registry import WorkerStats, any_alive, mark_stopped, record_heartbeat, register
from tests.places import CHECKOUT
from tests.rows import AddWaitingJob, dead_process, enter


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


def test_a_living_process_keeps_its_shards_until_its_lease_runs_out(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    work = leases.lease(database, worker_id, 0, lease_s=3600)
    assert work is not None
    assert any_alive(database, 60)
    assert reap(database) == 0

    leases.heartbeat(database, -1.0, [work])

    assert reap(database) == 1


def test_nothing_is_known_of_a_process_on_another_machine(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=2, per_shard=2)
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


def test_a_process_that_is_hidden_lives_as_long_as_its_number_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for hidepid, where no namespace can be made: /proc shows nothing of another user's processes."""
    me, ended = ProcessId.mine(), ended_process()

    def refuse_or_deny(pid: int, _signal: int) -> None:
        raise ProcessLookupError if pid == ended.pid else PermissionError

    monkeypatch.setattr(process_module, "_stat", lambda pid: None)
    monkeypatch.setattr(process_module.os, "kill", refuse_or_deny)

    assert not me.is_dead()
    assert ended.is_dead()


ASK = """
import json, sys
from jobs.process import ProcessId, this_machine
print(json.dumps([this_machine(), *(ProcessId(machine, pid, started).is_dead() for machine, pid, started in {asked})]))
"""


def seen_from(*namespaces: str) -> tuple[str, bool, bool]:
    """As a process in other namespaces sees it: which machine this is, and whether we and one that ended are dead."""
    asked = [(process.machine, process.pid, process.started) for process in (ProcessId.mine(), ended_process())]
    done = subprocess.run(
        ["unshare", *namespaces, sys.executable, "-c", ASK.format(asked=asked)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
    )
    if done.returncode and ("unshare:" in done.stderr or "mount:" in done.stderr):
        pytest.skip(f"no namespace can be made here ({done.stderr.strip()})")
    assert done.returncode == 0, done.stderr
    machine, me, ended = json.loads(done.stdout)
    return machine, me, ended


def with_proc(option: str, user: int) -> tuple[str, ...]:
    mounted = f'mount -t proc -o {option} proc /proc && exec setpriv --reuid={user} --clear-groups "$@"'
    return ("--mount", "sh", "-c", mounted, "sh")


def test_a_process_of_another_user_that_proc_hides_is_not_dead() -> None:
    machine, me, ended = seen_from(*with_proc("hidepid=2", user=65534))

    assert machine == ProcessId.mine().machine
    assert (me, ended) == (False, True)


def test_where_proc_does_not_tell_the_machine_nothing_is_known_of_any_process() -> None:
    """As under systemd's ProcSubset=pid. Two such machines are not the same one either."""
    machine, me, ended = seen_from(*with_proc("subset=pid", user=0))

    assert (machine, me, ended) == ("", False, False)
    assert not ProcessId("", ended_process().pid, 1.0).is_dead()


def test_times_since_boot_are_not_compared_across_time_namespaces() -> None:
    machine, me, ended = seen_from("--time", "--boottime", "86400", "--fork")

    assert machine != ProcessId.mine().machine
    assert (me, ended) == (False, False)


def test_a_live_worker_that_was_marked_as_stopped_comes_back_with_its_next_heartbeat(database: Database) -> None:
    worker_id = enter(database, dead_process())  # as somebody took it for
    reap(database)
    assert not any_alive(database, 60)

    record_heartbeat(database, worker_id, WorkerStats())

    assert any_alive(database, 60)
    assert reap(database) == 0
    assert any_alive(database, 60), "it was judged by its process again"


def test_a_worker_of_an_unknown_machine_lives_by_its_heartbeat(database: Database) -> None:
    enter(database, ProcessId("", dead_process().pid, 1.0))

    reap(database)

    assert any_alive(database, 60)
    assert not any_alive(database, -1)


def test_a_worker_that_retired_is_not_alive(database: Database) -> None:
    worker_id = register(database, device="cpu", provider="test", lanes=1)
    record_heartbeat(database, worker_id, WorkerStats(kv_bytes=7))

    mark_stopped(database, [worker_id])

    assert not any_alive(database, 60)
    with database.reading() as connection:
        assert connection.execute(select(tables.Worker.kv_bytes)).scalar() == 7


def ended_process() -> ProcessId:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return ProcessId(ProcessId.mine().machine, process.pid, 1.0)
