"""Workers with a broker. (One that dies: tests/faults/test_killed_broker.py.)"""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from jobs.dispatch.append_hints import AppendHints
from jobs.dispatch.broker import make_app, send_hints
from jobs.settings import read_settings
from jobs.store.database import Database
from jobs.submission.open_job import append, corpus_of_documents, open_job
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from jobs.worker_port import worker_port
from tests.end_to_end.conftest import Bulletins
from tests.integration.conftest import Fleet, free_port
from tests.machine import PATIENCE_S, child_of, until


def test_a_hint_wakes_an_idle_worker_at_once_and_lost_ones_are_sent_again(
    fleet: Fleet, bulletins: Bulletins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the worker's processes only the child loads onnxruntime."""
    worker = fleet.worker()

    fleet.submit(bulletins(5))

    until(fleet.is_done)
    child = child_of(worker.pid)
    assert "onnxruntime" in Path(f"/proc/{child}/maps").read_text()
    assert "onnxruntime" not in Path(f"/proc/{worker.pid}/maps").read_text()

    fleet.redis.client().flushall()
    fleet.submit(bulletins(5), "--again")
    until(fleet.is_done)

    monkeypatch.delenv("KVJOBS_BROKER")  # this submit sends no hint
    fleet.submit(bulletins(5, "more.jsonl"), "--again")

    until(fleet.is_done)


def test_duplicated_hints_do_no_work_twice(fleet: Fleet, bulletins: Bulletins) -> None:
    for _ in range(2):
        fleet.worker()
    fleet.submit(bulletins(24))
    app = make_app(fleet.redis.url)
    while not fleet.is_done():
        send_hints(app, "cpu", 5)
        time.sleep(0.1)

    assert fleet.succeeded() == 24
    finished = fleet.ask("select shard_id, count(*) from shard_events where event = 'finished' group by shard_id")
    assert {times for _, times in finished} == {1}
    assert fleet.ask("select count(*) from translations") == [(24,)]
    assert fleet.kvjobs("db", "check", "1").exit_code == 0


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
    assert [row["state"] for row in fleet.kvjobs("worker", "ls", "--json").json] == ["killed"]
    worker.kill()


def test_idle_workers_with_a_broker_are_drained_and_end_with_0(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVJOBS_HEARTBEAT_S", "0.2")
    workers = [fleet.worker() for _ in range(2)]

    drained = fleet.kvjobs("worker", "drain", "--all", "--timeout", PATIENCE_S)

    assert drained.exit_code == 0, drained.err
    assert [worker.wait(PATIENCE_S) for worker in workers] == [0, 0]


def test_with_a_json_log_the_lines_of_celery_are_objects_too(
    fleet: Fleet, bulletins: Bulletins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_LOG_FORMAT", "json")
    monkeypatch.setenv("KVJOBS_LOG_LEVEL", "debug")
    worker = fleet.worker()
    fleet.submit(bulletins(5))
    until(fleet.is_done)
    fleet.redis.kill()
    time.sleep(1)  # it tries to connect anew
    worker.send_signal(signal.SIGTERM)
    _, log = worker.communicate(timeout=PATIENCE_S)

    lines = [json.loads(line) for line in log.splitlines()]

    assert {line["logger"].partition(".")[0] for line in lines} >= {"celery", "kvjobs", "worker"}
    assert [line["message"] for line in lines if line["logger"] == "kvjobs" and fleet.redis.url in line["message"]]


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

    worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 130
    until(lambda: not Path(f"/proc/{child}/maps").exists() or not Path(f"/proc/{child}/maps").read_text())


def test_a_document_that_is_appended_to_an_open_job_wakes_a_worker(fleet: Fleet) -> None:
    settings, _ = read_settings({})
    database = Database.connect(settings.database_url)
    spec = worker_port().admit(Task.TRANSLATE, None, TranslateOptions(), settings)
    job, _ = open_job(database, corpus_of_documents(spec), spec)
    hints = AppendHints.of(database, settings)
    fleet.worker()
    for number in range(1, 4):
        append(database, job, [{"id": str(number), "text": "Snow will fall on Monday."}])
        hints.wake()
        until(lambda number=number: fleet.succeeded() == number)
    hints.close()
    database.close()

    assert fleet.kvjobs("close", "1").exit_code == 0
    assert fleet.is_done()
