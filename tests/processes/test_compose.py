"""docker-compose.yml is valid for the schema of the Compose specification."""

import subprocess
import sys

from tests.places import CHECKOUT

FILE = CHECKOUT / "docker-compose.yml"


def test_the_file_matches_the_schema_of_the_compose_specification() -> None:
    check = ["check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run([sys.executable, "-m", *check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
