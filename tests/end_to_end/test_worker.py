"""`kvjobs worker`: how it ends, health checks, Ctrl-C, and cancelled jobs."""

import os
import shutil
import signal
from pathlib import Path

from tests.command_line import Kvjobs
from tests.end_to_end.conftest import Bulletins
from tests.machine import PATIENCE_S, Machine, child_of, freeze, until
from tests.places import DEMO_MODEL
from tests.worker_here import worker_here

MANY = 200  # documents: five seconds of work; the tests wait only for the first batch


def test_a_draining_worker_ends_when_no_work_is_left(machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins) -> None:
    kvjobs("submit", bulletins(5))

    assert machine.kvjobs("worker", "--drain").returncode == 0

    assert machine.succeeded() == 5
    assert kvjobs("wait", "last").exit_code == 0


def test_a_running_worker_answers_a_ping_and_a_suspended_one_does_not(machine: Machine, kvjobs: Kvjobs) -> None:
    worker = machine.worker()
    run = machine.home / "run"
    until(lambda: run.is_dir() and list(run.iterdir()))  # until its socket exists, ping relies on its heartbeat
    until(lambda: kvjobs("worker", "ping", "--here").exit_code == 0)
    child = child_of(worker.pid)
    assert child is not None

    freeze(child)
    frozen = kvjobs("worker", "ping", "--here", "--timeout", "0.3", "--json")
    os.kill(child, signal.SIGCONT)

    assert (frozen.exit_code, [(row["pid"], row["lives"]) for row in frozen.json]) == (1, [(child, False)])
    until(lambda: kvjobs("worker", "ping", "--here").exit_code == 0)

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE_S)
    assert kvjobs("worker", "ping", "--here").exit_code == 1
    assert list(run.iterdir()) == []


def test_a_stopped_worker_releases_its_shard_and_no_crash_is_counted(
    machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins
) -> None:
    kvjobs("submit", bulletins(MANY))
    worker = machine.start("worker")
    until(machine.succeeded)

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE_S)

    assert worker.returncode == 0
    assert 0 < machine.succeeded() < MANY
    assert {state for (state,) in machine.ask("select state from v_shards")} <= {"ready", "done"}
    assert machine.ask("select sum(crashes) from v_shards") == [(0,)]


def test_ctrl_c_keeps_results_and_prints_the_command_that_continues(
    machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins
) -> None:
    bulletins(number := 100)
    submit = machine.start("submit", "bulletins.jsonl", "--wait", "--again", "-o", "out.jsonl")
    until(machine.succeeded)

    submit.send_signal(signal.SIGINT)
    _, log = submit.communicate(timeout=PATIENCE_S)

    assert submit.returncode == 130
    advised = log.splitlines()[-1].rpartition("To continue: kvjobs ")[2]
    assert advised == "watch 1 --work -o out.jsonl"
    assert not (machine.folder / "out.jsonl").exists()
    assert 0 < machine.succeeded() < number
    assert machine.ask("select sum(crashes) from v_shards") == [(0,)]

    assert kvjobs(*advised.split()).exit_code == 0
    assert len((machine.folder / "out.jsonl").read_text().splitlines()) == number
    assert kvjobs("ls", "-q").out == "1\n"


def test_cancel_reaches_a_running_worker_and_keeps_its_results(
    machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins
) -> None:
    kvjobs("submit", bulletins(MANY))
    with worker_here():
        until(machine.succeeded)

        assert kvjobs("cancel", "last").exit_code == 0

        assert kvjobs("wait", "last", "--timeout", "30").exit_code == 3
    assert machine.ask("select state, succeeded + cancelled from v_jobs") == [("cancelled", MANY)]
    assert 0 < machine.succeeded() < MANY


def test_a_model_that_changed_since_the_submit_pauses_the_job_with_the_reason(
    machine: Machine, kvjobs: Kvjobs, bulletins: Bulletins
) -> None:
    model = Path(shutil.copytree(DEMO_MODEL, machine.folder / "model"))
    kvjobs("submit", bulletins(2), "--model", "./model")
    (model / "vocab.json").write_text((model / "vocab.json").read_text() + "\n")

    with worker_here():
        until(lambda: kvjobs("ls", "--all", "--json").json[0]["paused"])

    (job,) = kvjobs("ls", "--all", "--json").json
    assert "have changed" in job["reason"]
