"""Workers with a broker, also while the broker is unavailable."""

import os
import signal
import time
from pathlib import Path

import pytest

from jobs.dispatch.broker import make_app, send_hints
from tests.end_to_end.conftest import Bulletins
from tests.integration.conftest import Fleet, free_port
from tests.machine import child_of, until


def test_a_hint_wakes_an_idle_worker_at_once_and_only_the_child_loads_onnxruntime(
    fleet: Fleet, bulletins: Bulletins
) -> None:
    worker = fleet.worker()

    fleet.submit(bulletins(5))

    until(fleet.is_done, 20)
    child = child_of(worker.pid)
    assert "onnxruntime" in Path(f"/proc/{child}/maps").read_text()
    assert "onnxruntime" not in Path(f"/proc/{worker.pid}/maps").read_text()


def test_lost_hints_are_sent_again(fleet: Fleet, bulletins: Bulletins, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.worker()
    fleet.redis.client().flushall()
    fleet.submit(bulletins(5))
    until(fleet.is_done, 20)

    monkeypatch.delenv("KVJOBS_BROKER")  # this submit sends no hint
    fleet.submit(bulletins(5, "more.jsonl"), "--again")

    until(fleet.is_done, 20)


def test_duplicated_hints_do_no_work_twice(fleet: Fleet, bulletins: Bulletins) -> None:
    for _ in range(2):
        fleet.worker()
    fleet.submit(bulletins(80))
    app = make_app(fleet.redis.url)
    while not fleet.is_done():
        send_hints(app, "cpu", 5)
        time.sleep(0.2)

    assert fleet.succeeded() == 80
    finished = fleet.ask("select shard_id, count(*) from shard_events where event = 'finished' group by shard_id")
    assert {times for _, times in finished} == {1}
    assert fleet.ask("select count(*) from translations") == [(80,)]
    assert fleet.kvjobs("db", "check", "1").exit_code == 0


def test_a_worker_that_cannot_reach_its_broker_still_finds_work(fleet: Fleet, bulletins: Bulletins) -> None:
    fleet.redis.kill()
    worker = fleet.worker(KVJOBS_POLL_S="1")

    submitted = fleet.submit(bulletins(5))

    assert "find the job by themselves" in submitted.err
    until(fleet.is_done, 25)
    worker.send_signal(signal.SIGINT)
    _, log = worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert log.count("does not answer") == 1


def test_a_redis_that_dies_during_a_job_and_returns_empty_loses_no_work(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = fleet.worker()
    fleet.submit(bulletins(60))
    until(fleet.succeeded)
    fleet.redis.kill()
    until(fleet.is_done)
    fleet.redis.start()

    fleet.submit(bulletins(5), "--again")

    until(fleet.is_done, 20)
    worker.send_signal(signal.SIGTERM)
    _, log = worker.communicate(timeout=30)
    assert log.count("does not answer") == log.count("the broker is back") == 1


def test_a_child_killed_while_redis_is_unavailable_is_replaced_at_once(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = fleet.worker()
    fleet.submit(bulletins(300))
    until(fleet.succeeded)
    fleet.redis.kill()
    time.sleep(2)  # until Celery is in its reconnect loop
    killed = child_of(worker.pid)
    assert killed is not None
    before = fleet.succeeded()

    os.kill(killed, signal.SIGKILL)

    until(lambda: child_of(worker.pid) not in (None, killed), 10)
    until(lambda: fleet.succeeded() > before, 20)
    worker.send_signal(signal.SIGQUIT)
    worker.communicate(timeout=30)
    assert worker.returncode == 0


def test_a_worker_stops_cleanly_while_redis_is_unavailable(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = fleet.worker()
    fleet.submit(bulletins(300))
    until(fleet.succeeded)
    fleet.redis.kill()
    time.sleep(2)  # until Celery is in its reconnect loop

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=30)

    assert worker.returncode == 0
    shards = fleet.ask("select state, crashes from shards")
    assert {state for state, _ in shards} <= {"ready", "done"}
    assert not any(crashes for _, crashes in shards)
    assert 0 < fleet.succeeded() < 300


def test_worker_ls_and_ping_show_which_workers_are_alive(fleet: Fleet) -> None:
    assert fleet.kvjobs("worker", "ping").exit_code == 1
    worker = fleet.worker("--queues", "cpu,model:demo-en-zh")

    (seen,) = fleet.kvjobs("worker", "ls", "--json").json
    assert (seen["state"], seen["queues"]) == ("idle", "cpu,model:demo-en-zh")
    until(lambda: fleet.kvjobs("worker", "ping", "--json").json[0]["hint"])
    fleet.redis.kill()
    assert fleet.kvjobs("worker", "ping").exit_code == 0

    child = child_of(worker.pid)
    assert child is not None
    worker.send_signal(signal.SIGSTOP)  # so that the parent does not start another child
    os.kill(child, signal.SIGKILL)
    until(lambda: fleet.kvjobs("worker", "ping", "--here").exit_code == 1)  # SIGKILL takes a moment
    assert [row["state"] for row in fleet.kvjobs("worker", "ls", "--json").json] == ["stale"]
    worker.kill()


def test_doctor_checks_the_broker(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = fleet.kvjobs("doctor", "--json").json["checks"]
    assert {c["name"]: c["is_warning"] for c in checks if c["name"].startswith("broker")} == {
        "broker": False,
        "broker maxmemory-policy": False,
        "broker appendonly": True,
    }

    monkeypatch.setenv("KVJOBS_BROKER", f"redis://:secret@127.0.0.1:{free_port()}/0")
    report = fleet.kvjobs("doctor")

    assert report.exit_code == 1
    assert "does not answer" in report.out
    assert "secret" not in report.out + report.err


def test_a_second_sigterm_ends_a_worker_at_once(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = fleet.worker()
    fleet.submit(bulletins(200))
    until(fleet.succeeded)
    child = child_of(worker.pid)
    os.kill(child or 0, signal.SIGSTOP)  # so that the child cannot finish its batch
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert worker.poll() is None

    worker.send_signal(signal.SIGTERM)

    worker.communicate(timeout=10)
    assert worker.returncode == 130
    until(lambda: not Path(f"/proc/{child}/maps").exists() or not Path(f"/proc/{child}/maps").read_text())
