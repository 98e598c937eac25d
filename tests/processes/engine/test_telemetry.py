"""onnxruntime keeps a file of what it will report in the user's cache: there must be none."""

import os
import subprocess
import sys
from pathlib import Path

from tests.places import DEMO_MODEL

DEMO = DEMO_MODEL / "encoder.onnx"
OPEN = "import {first}, onnxruntime, sys; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"


def files_left(home: Path, first: str) -> list[Path]:
    environment = {name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "CI")}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    subprocess.run([sys.executable, "-c", OPEN.format(first=first), str(DEMO)], env=environment, check=True)
    return [path for path in home.rglob("*") if path.is_file()]


def test_nothing_is_kept_for_the_maker_of_onnxruntime(tmp_path: Path) -> None:
    """(onnxruntime 1.32 imported without us leaves `deviceid` and `onnxruntime.db`.)"""
    assert files_left(tmp_path, first="worker") == []
