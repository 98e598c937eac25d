"""A worker that may start few threads, as under `ulimit -u` or a limit of pids."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.control_group import control_group
from tests.machine import until


@pytest.mark.may_skip
@pytest.mark.usefixtures("sqlite")  # making a database takes a second
def test_a_worker_that_may_start_too_few_threads_says_so_in_one_sentence(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-P", "-m", "jobs.cli.main", "worker", "--lanes", "2"]
    with (
        log.open("wb") as errors,
        control_group("pids", {"pids.max": "8"}) as inside,
        subprocess.Popen([*inside, *command], stderr=errors, env=dict(os.environ)) as worker,
    ):
        try:
            until(lambda: log.read_text().count("ulimit -u") > 1)
        finally:
            worker.terminate()
            worker.wait(40)

    assert "Traceback" not in log.read_text()
