import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Machine
from tests.places import DEMO_MODEL

Bulletins = Callable[..., Path]


def until(condition: Callable[[], object], timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def job(machine: Machine) -> dict[str, object]:
    (row,) = json.loads(machine.kvjobs("ls", "--all", "--json").stdout)
    return dict(row)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_worker_that_drains_ends_when_nothing_is_left(machine: Machine, bulletins: Bulletins) -> None:
    bulletins(5)
    assert machine.kvjobs("submit", "bulletins.jsonl").returncode == 0

    assert machine.kvjobs("worker", "--drain").returncode == 0

    assert job(machine)["succeeded"] == 5
    assert machine.kvjobs("wait", "last").returncode == 0


def test_the_parent_never_loads_onnxruntime_and_its_child_does(machine: Machine, bulletins: Bulletins) -> None:
    bulletins(300)
    machine.kvjobs("submit", "bulletins.jsonl")
    worker = machine.start("worker")
    until(lambda: job(machine)["succeeded"])
    (child,) = children(worker.pid)

    assert "onnxruntime" not in Path(f"/proc/{worker.pid}/maps").read_text()
    assert "onnxruntime" in Path(f"/proc/{child}/maps").read_text()

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=30)


def test_a_worker_answers_for_itself_and_one_that_is_frozen_does_not(machine: Machine) -> None:
    worker = machine.start("worker")
    until(lambda: machine.kvjobs("worker", "ping", "--here").returncode == 0)
    (child,) = children(worker.pid)

    os.kill(child, signal.SIGSTOP)
    frozen = machine.kvjobs("worker", "ping", "--here", "--timeout", "0.3", "--json")
    os.kill(child, signal.SIGCONT)

    assert (frozen.returncode, [(row["pid"], row["lives"]) for row in json.loads(frozen.stdout)]) == (
        1,
        [(child, False)],
    )
    until(lambda: machine.kvjobs("worker", "ping", "--here").returncode == 0)

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=30)
    assert machine.kvjobs("worker", "ping", "--here").returncode == 1
    assert list((machine.folder.parent / "home" / "run").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_gives_its_shard_back_without_blame(
    machine: Machine, bulletins: Bulletins, number: signal.Signals
) -> None:
    bulletins(600)
    machine.kvjobs("submit", "bulletins.jsonl")
    worker = machine.start("worker")
    until(lambda: job(machine)["succeeded"])

    worker.send_signal(number)
    worker.communicate(timeout=30)

    assert worker.returncode == 0
    shards = json.loads(machine.kvjobs("query", "select state, crashes from v_shards", "--json").stdout)
    assert {shard["state"] for shard in shards} <= {"ready", "done"}
    assert not any(shard["crashes"] for shard in shards)


@pytest.mark.timeout(180)
def test_ctrl_c_keeps_what_is_done_and_prints_the_command_that_goes_on(machine: Machine, bulletins: Bulletins) -> None:
    bulletins(300)
    submit = machine.start("submit", "bulletins.jsonl", "--wait", "--again", "-o", "out.jsonl")
    until(lambda: (machine.folder.parent / "home" / "kvjobs.db").exists() and job(machine)["succeeded"])

    submit.send_signal(signal.SIGINT)
    _, said = submit.communicate(timeout=40)

    assert submit.returncode == 130
    advised = said.splitlines()[-1].rpartition("To continue: kvjobs ")[2]
    assert advised == "watch 1 --work -o out.jsonl"
    assert not (machine.folder / "out.jsonl").exists()
    kept = int(str(job(machine)["succeeded"]))
    assert 0 < kept < 300
    shards = json.loads(machine.kvjobs("query", "select sum(crashes) as n from v_shards", "--json").stdout)
    assert shards == [{"n": 0}]

    assert machine.kvjobs(*advised.split(), timeout=150).returncode == 0
    assert len((machine.folder / "out.jsonl").read_text().splitlines()) == 300
    assert machine.kvjobs("ls", "-q").stdout == "1\n"


def test_cancel_reaches_a_running_worker_and_keeps_its_results(machine: Machine, bulletins: Bulletins) -> None:
    machine.environment["KVJOBS_HEARTBEAT_S"] = "0.2"
    bulletins(600)
    machine.kvjobs("submit", "bulletins.jsonl")
    worker = machine.start("worker", "--drain")
    until(lambda: job(machine)["succeeded"])

    assert machine.kvjobs("cancel", "last").returncode == 0

    assert machine.kvjobs("wait", "last", "--timeout", "30").returncode == 3
    after = job(machine)
    assert after["state"] == "cancelled"
    assert int(str(after["succeeded"])) + int(str(after["cancelled"])) == 600
    worker.communicate(timeout=30)


def test_a_model_that_changed_since_the_submit_pauses_the_job_and_says_so(
    machine: Machine, bulletins: Bulletins
) -> None:
    bulletins(2)
    model = machine.folder / "model"
    model.mkdir()
    for file in DEMO_MODEL.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    machine.kvjobs("submit", "bulletins.jsonl", "--model", "./model")
    (model / "vocab.json").write_text((model / "vocab.json").read_text() + "\n")

    machine.kvjobs("worker", "--drain")

    assert job(machine)["paused"]
    assert "have changed" in str(job(machine)["reason"])
