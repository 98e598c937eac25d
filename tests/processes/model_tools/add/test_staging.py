"""The next `models add` removes the unfinished folders of a killed one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import CHECKOUT
from worker.model_tools.add.staging import staging, sweep

WORK = """
import sys, time
from pathlib import Path
from worker.model_tools.add.staging import staging
with staging(Path(sys.argv[1])) as stage:
    (stage.path / "config.json").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "models"


def make(models_dir: Path, name: str, content: str, *, force: bool = False) -> Path:
    with staging(models_dir) as stage:
        (stage.path / "onnx").mkdir()
        (stage.path / "onnx" / "graph").write_text(content)
        return stage.publish(name, force=force)


def test_the_next_process_removes_the_folder_of_a_killed_one(models_dir):
    make(models_dir, "opus", "one")
    with subprocess.Popen(
        [sys.executable, "-c", WORK, str(models_dir)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        make(models_dir, "while it works", "two")
        (half,) = models_dir.glob(".adding-*")
        assert (half / "model" / "config.json").read_text() == "half"
        process.send_signal(signal.SIGKILL)
        process.wait()

    sweep(models_dir)

    assert sorted(os.listdir(models_dir)) == ["opus", "while it works"]
