"""onnxruntime writes files of telemetry to the user's cache folder, which kvjobs must prevent."""

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


def test_onnxruntime_leaves_no_telemetry_file(tmp_path: Path) -> None:
    """(Imported without kvjobs, onnxruntime 1.32 leaves `deviceid` and `onnxruntime.db`.)"""
    assert files_left(tmp_path, first="worker") == []
