"""`kvjobs worker ls` and `ping`: which workers exist, what they do, and which are alive."""

import re

from sqlalchemy import update

from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.schema.clock import db_time
from jobs.store.schema.tables import Worker
from jobs.store.worker_registry import WorkerStats, mark_stopped, record_heartbeat, register
from jobs.system.process import ProcessId
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, Line, dead_process, enter

ELSEWHERE = ProcessId("another boot", 1, 1.0)


@ON_BOTH
def test_the_list_shows_which_worker_is_busy_idle_stale_or_stopped(
    database: Database, add_job: AddJob, kvjobs: Kvjobs
) -> None:
    job_id = add_job(Line("a"), Line("b"))
    busy = register(database, device="cpu", provider="test", lanes=1, queues="cpu,model:m")
    record_heartbeat(database, busy, WorkerStats(models='{"m": 1.5}'))
    leases.lease(database, busy, 0, 60)
    idle, silent, dead = (enter(database, process) for process in (ELSEWHERE, ELSEWHERE, dead_process()))
    with database.writing() as connection:
        connection.execute(update(Worker).where(Worker.id == silent).values(heartbeat_at=db_time(-61)))
    gone, killed = (register(database, device="cpu", provider="test", lanes=1, parent_pid=7) for _ in range(2))
    mark_stopped(database, [gone])
    mark_stopped(database, [gone, killed], killed=True)

    rows = kvjobs("worker", "ls", "--json").json

    assert [(row["worker_id"], row["state"]) for row in rows] == [
        (dead, "killed"),
        (silent, "stale"),
        (idle, "idle"),
        (busy, "busy"),
    ]
    assert (rows[-1]["queues"], rows[-1]["models"], rows[-1]["in_flight"]) == ("cpu,model:m", {"m": 1.5}, 2)
    assert [held["job_id"] for held in rows[-1]["shards"]] == [job_id]
    ended = kvjobs("worker", "ls", "--all", "--json").json[:2]
    assert [(row["worker_id"], row["state"], row["parent_pid"]) for row in ended] == [
        (killed, "killed", 7),
        (gone, "stopped", 7),
    ]
    assert kvjobs("worker", "pause", killed).exit_code == kvjobs("worker", "pause", gone).exit_code == 2
    assert re.search(r"killed +\S+ +7 ", kvjobs("worker", "ls", "--all").out)  # of the process that was started
    assert "cpu,model:m" in kvjobs("worker", "ls").out


def test_a_worker_is_paused_resumed_and_drained_by_its_number(database: Database, kvjobs: Kvjobs) -> None:
    worker = register(database, device="cpu", provider="test", lanes=1)

    def state() -> tuple[str, str | None, bool]:
        (row,) = kvjobs("worker", "ls", "--json").json
        return row["state"], row["asked_to"], row["asked_by"] is not None

    paused = kvjobs("worker", "pause", worker)
    assert (paused.exit_code, state()) == (0, ("paused", "pause", True))
    assert f"kvjobs worker resume {worker}" in paused.err
    assert kvjobs("worker", "ping").exit_code == 0
    assert kvjobs("worker", "resume", worker, "--json").json["state"] == "idle"
    assert state() == ("idle", None, False)
    assert kvjobs("worker", "drain", worker, "--no-wait").exit_code == 0
    assert state() == ("draining", "drain", True)
    assert kvjobs("worker", "resume", worker).exit_code == 2
    assert kvjobs("worker", "drain", worker, "--no-wait").exit_code == 0  # it is asked already


def test_a_worker_that_is_not_there_or_has_stopped_is_asked_for_nothing(database: Database, kvjobs: Kvjobs) -> None:
    gone = register(database, device="cpu", provider="test", lanes=1)
    mark_stopped(database, [gone])

    assert kvjobs("worker", "pause", gone).exit_code == 2
    assert kvjobs("worker", "pause", gone + 1).exit_code == 5


def on_host(database: Database, host: str, process: ProcessId = ELSEWHERE) -> int:
    """The number of a worker on this host."""
    worker_id = enter(database, process)
    with database.writing() as connection:
        connection.execute(update(Worker).where(Worker.id == worker_id).values(host=host))
    return worker_id


def asked(kvjobs: Kvjobs) -> dict[int, str | None]:
    """What each worker is asked to do."""
    return {row["worker_id"]: row["asked_to"] for row in kvjobs("worker", "ls", "--all", "--json").json}


@ON_BOTH
def test_the_workers_of_a_host_are_drained_and_no_others(database: Database, kvjobs: Kvjobs) -> None:
    first, second, other = (on_host(database, host) for host in ("node-1", "node-1", "node-2"))

    drained = kvjobs("worker", "drain", "NODE-1", "--no-wait", "--json")

    assert drained.exit_code == 0
    assert [row["worker_id"] for row in drained.json] == [second, first]
    assert asked(kvjobs) == {first: "drain", second: "drain", other: None}
    later = on_host(database, "node-1")  # one that starts after the order
    assert asked(kvjobs)[later] is None


@ON_BOTH
def test_all_workers_are_drained_those_too_that_replace_a_process_that_has_just_died(
    database: Database, kvjobs: Kvjobs
) -> None:
    running = on_host(database, "node-1")
    killed, killed_long_ago, ended = (on_host(database, "node-2") for _ in range(3))
    mark_stopped(database, [killed, killed_long_ago], killed=True)
    mark_stopped(database, [ended])
    with database.writing() as connection:
        connection.execute(update(Worker).where(Worker.id == killed_long_ago).values(stopped_at=db_time(-3600)))

    assert kvjobs("worker", "drain", "--all", "--no-wait").exit_code == 0

    assert asked(kvjobs) == {running: "drain", killed: "drain", killed_long_ago: None, ended: None}
    replacing = register(database, device="cpu", provider="test", lanes=1, replaces=killed)
    new = register(database, device="cpu", provider="test", lanes=1)
    assert (asked(kvjobs)[replacing], asked(kvjobs)[new]) == ("drain", None)


def test_nobody_is_drained_where_a_name_is_wrong(database: Database, kvjobs: Kvjobs) -> None:
    worker = on_host(database, "node-1")
    mark_stopped(database, [gone := on_host(database, "node-9")])

    wrong = kvjobs("worker", "drain", worker, "noode-1")
    assert wrong.exit_code == 5
    assert line_with(wrong.err, "'noode-1'", "node-1?")
    assert kvjobs("worker", "drain", "node-1", "node-9").exit_code == 5  # whose worker has ended
    assert kvjobs("worker", "drain", "node-1", worker + 100).exit_code == 5
    assert kvjobs("worker", "drain", "node-1", gone).exit_code == 2
    assert line_with(kvjobs("worker", "drain", "\x1b[2J").err, r"\x1b")
    for missing in ((), ("--all", "node-1")):
        assert kvjobs("worker", "drain", *missing).exit_code == 2

    assert set(asked(kvjobs).values()) == {None}


def test_without_workers_there_is_nobody_to_drain(database: Database, kvjobs: Kvjobs) -> None:
    drained = kvjobs("worker", "drain", "--all", "--json")

    assert (drained.exit_code, drained.json) == (0, [])


def test_a_worker_that_was_drained_before_and_has_ended_is_no_error(database: Database, kvjobs: Kvjobs) -> None:
    worker = on_host(database, "node-1")
    kvjobs("worker", "drain", worker, "--no-wait")
    mark_stopped(database, [worker])

    again = kvjobs("worker", "drain", worker, "--json")

    assert (again.exit_code, [row["state"] for row in again.json]) == (0, ["stopped"])


def test_who_has_not_ended_within_the_timeout_is_named(database: Database, kvjobs: Kvjobs, add_job: AddJob) -> None:
    busy, ended = on_host(database, "node-1"), on_host(database, "node-2")
    job_id = add_job(Line("a"))
    work = leases.lease(database, busy, 0, 60)
    assert work is not None
    mark_stopped(database, [ended])

    left = kvjobs("worker", "drain", "--all", "--timeout", "0")

    assert left.exit_code == 4
    assert line_with(left.err, "1 worker", f"worker {busy} on node-1", f"{job_id}/{work.shard_id}")


def test_a_worker_that_is_silent_is_asked_but_not_waited_for(database: Database, kvjobs: Kvjobs) -> None:
    silent = on_host(database, "node-1")
    with database.writing() as connection:
        connection.execute(update(Worker).values(heartbeat_at=db_time(-61)))

    drained = kvjobs("worker", "drain", silent)

    assert drained.exit_code == 0
    assert line_with(drained.err, f"worker {silent} on node-1", "1 min 0")
    assert asked(kvjobs) == {silent: "drain"}


def test_without_workers_the_list_is_empty_and_ping_fails(database: Database, kvjobs: Kvjobs) -> None:
    assert kvjobs("worker", "ls", "--json").json == []
    assert "kvjobs worker" in kvjobs("worker", "ls").err
    assert (kvjobs("worker", "ping").exit_code, kvjobs("worker", "ping", "--json").json) == (1, [])


def test_a_live_worker_on_another_machine_does_not_count_as_here(database: Database, kvjobs: Kvjobs) -> None:
    enter(database, ELSEWHERE)

    assert kvjobs("worker", "ping").exit_code == 0
    assert kvjobs("worker", "ping", "--here").exit_code == 1

    register(database, device="cpu", provider="test", lanes=1)

    assert kvjobs("worker", "ping", "--here").exit_code == 0


def test_without_machine_ids_the_host_name_decides_which_worker_is_here(database: Database, kvjobs: Kvjobs) -> None:
    enter(database, ProcessId("", 1, 1.0))  # what a process under systemd's ProcSubset=pid registers

    assert kvjobs("worker", "ping", "--here").exit_code == 0

    with database.writing() as connection:
        connection.execute(update(Worker).values(host="another"))
    assert kvjobs("worker", "ping", "--here").exit_code == 1


def test_a_dead_or_silent_worker_does_not_count_as_alive(database: Database, kvjobs: Kvjobs) -> None:
    enter(database, dead_process())
    silent = register(database, device="cpu", provider="test", lanes=1)
    with database.writing() as connection:
        connection.execute(update(Worker).where(Worker.id == silent).values(heartbeat_at=db_time(-61)))

    asked = kvjobs("worker", "ping", "--json")

    assert asked.exit_code == 1
    assert [row["lives"] for row in asked.json] == [False, False]


def test_ping_here_uses_the_database_if_no_worker_answers(database: Database, kvjobs: Kvjobs) -> None:
    from jobs.store.worker_registry import register

    register(database, device="cpu", provider="test", lanes=1)

    assert kvjobs("worker", "ping", "--here").exit_code == 0
