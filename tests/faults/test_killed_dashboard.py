"""A dashboard that dies in the middle of an action leaves nothing half done that cannot be ended."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.places import CHECKOUT


def kvjobs(home: Path, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-P", "-m", "jobs.cli.main", *arguments]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    return {**kept, "KVJOBS_HOME": str(home), "PYTHONPATH": str(CHECKOUT), **more}


@contextmanager
def dashboard(home: Path, **more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-P", "-m", "jobs.cli.main", "web", "--port", "0"]
    process = subprocess.Popen(command, env=environment(home, **more), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        told = process.stderr.readline()
        found = re.search(r"http://[^\s/]+", told)
        assert found, told + process.stderr.read()
        yield process, found.group()
    finally:
        process.kill()
        process.wait(timeout=20)
        process.stderr.close()


def cancel(address: str, job_id: int) -> None:
    """Ask, as a visitor does: open the form, and send it."""
    path = f"{address}/jobs/{job_id}/actions/cancel"
    with urllib.request.urlopen(path, timeout=30) as answer:
        found = re.search(r'name="form_token" value="([^"]+)"', answer.read().decode())
    assert found
    urllib.request.urlopen(path, urlencode({"form_token": found[1]}).encode(), timeout=30).close()


def test_a_dashboard_killed_in_a_cancel_leaves_a_job_that_the_next_one_ends(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("fog\n" * 3)
    kvjobs(tmp_path, "submit", str(corpus), "--task", "score")
    deadly = {"KVJOBS_FAILPOINTS": "in-cancel:kill", "KVJOBS_FAILPOINTS_LOG": str(tmp_path / "hits")}

    with dashboard(tmp_path, **deadly) as (process, address):
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            cancel(address, 1)
        assert process.wait(timeout=20) == -signal.SIGKILL
    with dashboard(tmp_path) as (_, address):
        with urllib.request.urlopen(f"{address}/jobs/1/actions.json", timeout=30) as answer:
            (logged,) = json.load(answer)["actions"]
        assert (logged["action"], logged["outcome"]) == ("cancel", None)

    kvjobs(tmp_path, "cancel", "1")
    (job,) = json.loads(kvjobs(tmp_path, "ls", "--json"))
    assert (job["state"], job["cancelled"], job["waiting"]) == ("cancelled", 3, 0)
    kvjobs(tmp_path, "db", "check")
