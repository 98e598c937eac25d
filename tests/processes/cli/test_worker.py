"""A worker without a broker: what it loads, and what it does when it is asked to pause or to drain."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Kvjobs

pytestmark = pytest.mark.usefixtures("sqlite")  # making a database takes a second


def test_a_worker_without_a_broker_loads_no_celery_and_its_parent_no_model(home: Path) -> None:
    code = """
import sys
from jobs.cli.main import run
assert run(["worker", "--drain"]) == 0
print("LOADED", [name for name in ("celery", "kombu", "redis", "onnxruntime", "numpy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert "LOADED []" in done.stdout, done.stderr


def test_a_paused_worker_lets_work_wait_and_a_drained_one_ends(
    kvjobs: Kvjobs, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_HEARTBEAT_S", "0.1")
    corpus = home / "corpus.jsonl"
    corpus.write_text('{"text": "Fog in the morning."}\n')
    command = [sys.executable, "-P", "-m", "jobs.cli.main", "worker", "--lanes", "1"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            (worker,) = until(lambda: kvjobs("worker", "ls", "--json").json)
            kvjobs("worker", "pause", worker["worker_id"])
            asked = kvjobs("worker", "ls", "--json").json[0]["heartbeat_at"]
            until(lambda: kvjobs("worker", "ls", "--json").json[0]["heartbeat_at"] > asked)
            assert kvjobs("submit", corpus).exit_code == 0
            beat = kvjobs("worker", "ls", "--json").json[0]["heartbeat_at"]
            until(lambda: kvjobs("worker", "ls", "--json").json[0]["heartbeat_at"] > beat)
            assert kvjobs("show", 1, "--json").json["started_at"] is None

            kvjobs("worker", "resume", worker["worker_id"])
            assert kvjobs("wait", 1).exit_code == 0

            kvjobs("worker", "drain", worker["worker_id"])
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
    assert [row["state"] for row in kvjobs("worker", "ls", "--all", "--json").json] == ["stopped"]


def json_log(*arguments: str, **variables: str) -> list[dict[str, Any]]:
    """The lines of `kvjobs worker` on standard error; every one is an object."""
    command = [sys.executable, "-P", "-m", "jobs.cli.main", *arguments]
    environment = os.environ | {"KVJOBS_LOG_FORMAT": "json", "KVJOBS_LOG_LEVEL": "debug"} | variables
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_the_log_is_an_object_a_line_with_the_worker_the_job_the_shard_and_the_lane(kvjobs: Kvjobs, home: Path) -> None:
    corpus = home / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "a\nb\u2028c", "text": "Fog\n\x1b[2J in\u0085the morning."}) + "\n")
    assert kvjobs("submit", corpus, "--name", "two words").exit_code == 0

    lines = json_log("worker", "--drain", "--lanes", "1")

    assert all(line.keys() >= {"time", "level", "logger", "message"} for line in lines)
    of_shard = [line for line in lines if "shard" in line]
    assert {(line["worker"], line["job"], line["shard"], line["lane"]) for line in of_shard} == {(1, 1, 1, 0)}
    assert {line["logger"] for line in lines} >= {"kvjobs", "worker.process.work_log"}


def test_an_error_that_ends_a_worker_is_a_line_of_the_log_without_the_password(home: Path) -> None:
    lines = json_log("worker", KVJOBS_DATABASE="mysql://kvjobs:secret@localhost/kvjobs")
    lines += json_log("worker", "--queues", "gpu")

    assert [line["level"] for line in lines] == ["error", "error"]
    assert "secret" not in str(lines)


def until(found: Callable[[], Any]) -> Any:
    """The first answer that says yes."""
    while not (answer := found()):
        time.sleep(0.05)
    return answer
