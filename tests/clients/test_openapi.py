"""The description of the API is true: schemathesis asks a real server for what it says, and for what it does not."""

import subprocess
import sys
from pathlib import Path

from tests.web_process import web_process

# A request that its schema allows may be refused: options exclude one another, and jobs do not exist.
SETTINGS = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 429]
"""


def test_the_api_answers_what_it_says_it_does(home: Path, tmp_path: Path) -> None:
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(SETTINGS)
    program = str(Path(sys.executable).with_name("schemathesis"))
    how = ("--checks", "all", "--max-examples", "10", "--phases", "examples,coverage,fuzzing", "--no-color")
    # With some seeds it drops most bodies that it has made, which says nothing of the API.
    how = (*how, "--suppress-health-check", "filter_too_much")
    with web_process(home) as web:
        url = f"{web.address}/api/openapi.json"
        command = [program, "--config-file", str(settings), "run", url, *how, "--request-timeout", "20"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=250, cwd=tmp_path, check=False)

    assert result.returncode == 0, result.stdout[-5000:]
    assert "Server error" not in (home / "web.log").read_text()
