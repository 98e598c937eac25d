"""pip removes the files of kvjobs, and writes others, under a running worker."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.conftest import Bulletins
from tests.machine import Machine, until
from tests.places import CHECKOUT


def test_a_job_whose_bundled_model_is_being_replaced_waits_and_goes_on(
    machine: Machine, bulletins: Bulletins, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    for name in ("jobs", "worker", "migrations"):
        shutil.copytree(CHECKOUT / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    model = packages / "worker" / "demo" / "en-zh"
    assert machine.kvjobs("submit", str(bulletins(3))).returncode == 0
    model.rename(tmp_path / "away")
    log = tmp_path / "log"
    command = [sys.executable, "-P", "-m", "jobs.cli.main", "worker"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stderr=errors, env=os.environ | {"PYTHONPATH": str(packages)}) as worker,
    ):
        try:
            until(lambda: b"is missing" in log.read_bytes())
            assert machine.ask("select paused from jobs") == [(0,)]

            (tmp_path / "away").rename(model)

            until(machine.is_done)
        finally:
            worker.terminate()
    assert machine.ask("select crashes from shards") == [(0,)]
