"""Workers with a broker, and a broker that comes and goes."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.conftest import Fleet, child_of, free_port, until

Bulletins = Callable[..., Path]


def test_a_hint_wakes_an_idle_worker_at_once_and_its_parent_loads_no_model(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = fleet.worker()

    fleet.submit(bulletins(5))

    until(fleet.is_done, 20)
    child = child_of(worker.pid)
    assert "onnxruntime" in Path(f"/proc/{child}/maps").read_text()
    assert "onnxruntime" not in Path(f"/proc/{worker.pid}/maps").read_text()


def test_when_every_hint_is_lost_others_are_sent(fleet: Fleet, bulletins: Bulletins) -> None:
    fleet.worker()
    fleet.redis.client().flushall()
    fleet.submit(bulletins(5))
    until(fleet.is_done, 20)

    # Hints that go to nobody: the job is committed, and no `submit` tells of it.
    broker = fleet.machine.environment.pop("KVJOBS_BROKER")
    fleet.submit(bulletins(5, "more.jsonl"), "--again")
    fleet.machine.environment["KVJOBS_BROKER"] = broker

    until(fleet.is_done, 20)


def test_every_hint_five_times_does_no_work_twice(fleet: Fleet, bulletins: Bulletins) -> None:
    from jobs.dispatch.broker import make_app, send_hints

    for _ in range(2):
        fleet.worker()
    fleet.submit(bulletins(120))
    app = make_app(fleet.redis.url)
    while not fleet.is_done():
        send_hints(app, "cpu", 5)
        time.sleep(0.2)

    assert fleet.succeeded() == 120
    finished = fleet.ask("select shard_id, count(*) from shard_events where event = 'finished' group by shard_id")
    assert {times for _, times in finished} == {1}
    assert fleet.ask("select count(*) from translations") == [(120,)]
    assert fleet.kvjobs("db", "check", "1").returncode == 0


def test_a_worker_that_never_finds_its_broker_works_all_the_same(fleet: Fleet, bulletins: Bulletins) -> None:
    fleet.redis.kill()
    fleet.machine.environment["KVJOBS_POLL_S"] = "1"
    worker = fleet.worker()

    told = fleet.submit(bulletins(5))

    assert "find the job by themselves" in told.stderr
    until(fleet.is_done, 25)
    worker.send_signal(signal.SIGINT)
    _, said = worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert said.count("does not answer") == 1


def test_a_redis_that_dies_in_the_middle_and_comes_back_empty_changes_nothing(
    fleet: Fleet, bulletins: Bulletins
) -> None:
    worker = fleet.worker()
    fleet.submit(bulletins(100))
    until(fleet.succeeded)
    fleet.redis.kill()
    until(fleet.is_done)
    fleet.redis.start()

    fleet.submit(bulletins(5), "--again")

    until(fleet.is_done, 20)
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=30)
    assert said.count("does not answer") == said.count("the broker is back") == 1


def test_a_child_that_is_killed_while_redis_is_away_is_replaced_at_once(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = fleet.worker()
    fleet.submit(bulletins(300))
    until(fleet.succeeded)
    fleet.redis.kill()
    time.sleep(2)  # Celery is in its loop of attempts to connect
    killed = child_of(worker.pid)
    assert killed is not None
    before = fleet.succeeded()

    os.kill(killed, signal.SIGKILL)

    until(lambda: child_of(worker.pid) not in (None, killed), 5)
    until(lambda: fleet.succeeded() > before, 15)
    worker.send_signal(signal.SIGQUIT)
    worker.communicate(timeout=30)
    assert worker.returncode == 0


def test_a_worker_ends_without_blame_also_while_redis_is_away(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = fleet.worker()
    fleet.submit(bulletins(600))
    until(fleet.succeeded)
    fleet.redis.kill()
    time.sleep(2)

    started = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=30)
    print(f"ended after {time.monotonic() - started:.1f} s")

    assert worker.returncode == 0
    shards = fleet.ask("select state, crashes from shards")
    assert {state for state, _ in shards} <= {"ready", "done"}
    assert not any(crashes for _, crashes in shards)
    assert 0 < fleet.succeeded() < 600


def test_workers_can_be_seen_and_asked_whether_they_live(fleet: Fleet) -> None:
    assert fleet.kvjobs("worker", "ping").returncode == 1
    worker = fleet.worker("--queues", "cpu,model:demo-en-zh")

    (seen,) = json.loads(fleet.kvjobs("worker", "ls", "--json").stdout)
    assert (seen["state"], seen["queues"]) == ("idle", "cpu,model:demo-en-zh")
    until(lambda: json.loads(fleet.kvjobs("worker", "ping", "--json").stdout)[0]["hint"])
    fleet.redis.kill()
    assert fleet.kvjobs("worker", "ping").returncode == 0

    child = child_of(worker.pid)
    assert child is not None
    worker.send_signal(signal.SIGSTOP)  # or it would start another
    os.kill(child, signal.SIGKILL)
    assert fleet.kvjobs("worker", "ping", "--here").returncode == 1
    assert [row["state"] for row in json.loads(fleet.kvjobs("worker", "ls", "--json").stdout)] == ["stale"]
    worker.kill()


def test_doctor_looks_at_the_broker(fleet: Fleet) -> None:
    checks = json.loads(fleet.kvjobs("doctor", "--json").stdout)["checks"]
    assert {c["name"]: c["is_warning"] for c in checks if c["name"].startswith("broker")} == {
        "broker": False,
        "broker maxmemory-policy": False,
        "broker appendonly": True,
    }

    fleet.machine.environment["KVJOBS_BROKER"] = f"redis://:secret@127.0.0.1:{free_port()}/0"
    told = fleet.kvjobs("doctor")

    assert told.returncode == 1
    assert "does not answer" in told.stdout
    assert "secret" not in told.stdout + told.stderr


def test_a_worker_that_is_told_twice_is_gone_at_once(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = fleet.worker()
    fleet.submit(bulletins(600))
    until(fleet.succeeded)
    child = child_of(worker.pid)
    os.kill(child or 0, signal.SIGSTOP)  # so that it cannot finish its batch
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert worker.poll() is None

    worker.send_signal(signal.SIGTERM)

    worker.communicate(timeout=5)
    assert worker.returncode == 130
    until(lambda: not Path(f"/proc/{child}/maps").exists() or not Path(f"/proc/{child}/maps").read_text(), 2)
