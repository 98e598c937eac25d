"""What a worker without a broker loads."""

import subprocess
import sys
from pathlib import Path


def test_a_worker_without_a_broker_loads_no_celery_and_its_parent_no_model(home: Path) -> None:
    code = """
import sys
from jobs.cli.main import run
assert run(["worker", "--drain"]) == 0
print("LOADED", [name for name in ("celery", "kombu", "redis", "onnxruntime", "numpy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert "LOADED []" in done.stdout, done.stderr
