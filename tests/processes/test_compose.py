"""docker-compose.yml is valid for the schema of the Compose specification and for docker compose."""

import shutil
import subprocess
import sys

import pytest

from tests.places import CHECKOUT

FILE = CHECKOUT / "docker-compose.yml"


def test_the_file_matches_the_schema_of_the_compose_specification() -> None:
    check = ["check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run([sys.executable, "-m", *check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.may_skip
def test_docker_compose_accepts_the_file() -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("docker compose is not installed")
    command = ["docker", "compose", "--file", str(FILE), "--profile", "gpu", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
