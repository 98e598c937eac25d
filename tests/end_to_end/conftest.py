"""The command line as a user runs it: the installed script, in a process of its own, with an empty home."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from worker.demo.examples import lines

KVJOBS = Path(sys.executable).with_name("kvjobs")


@dataclass(frozen=True)
class Machine:
    """A home of its own, and a folder to work in that is not the checkout."""

    folder: Path
    environment: dict[str, str]

    def kvjobs(self, *arguments: str, timeout: float = 60, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(KVJOBS), *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=timeout,
            check=False,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(KVJOBS), *arguments],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    environment |= {"KVJOBS_HOME": str(tmp_path / "home"), "KVJOBS_LANES": "1"}
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return Machine(folder, environment)


@pytest.fixture
def bulletins(machine: Machine) -> Callable[..., Path]:
    """Write a corpus of unseen bulletins."""

    def write(count: int, name: str = "bulletins.jsonl") -> Path:
        path = machine.folder / name
        path.write_text("".join(lines(count, seed=3, references=True)), encoding="utf-8")
        return path

    return write
