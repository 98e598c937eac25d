"""docker-compose.yml, read by the tools of its specification."""

import shutil
import subprocess
import sys

import pytest

from tests.places import CHECKOUT

FILE = CHECKOUT / "docker-compose.yml"


def test_the_file_is_what_the_specification_of_compose_allows() -> None:
    check = ["check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run([sys.executable, "-m", *check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.may_skip
def test_compose_itself_reads_the_file() -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("docker compose is not installed")
    command = ["docker", "compose", "--file", str(FILE), "--profile", "gpu", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
