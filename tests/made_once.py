"""Folders that the processes of a test run share (pytest-xdist): the first that asks makes one, the others wait."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def folder_of_run(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The temporary folder of the run, below which each of its processes (`worker_id`, xdist's fixture) has its own."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """`folder`, which `make` fills; where that fails, the next process that asks begins anew."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder.with_name(f"{folder.name}.made")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            made.touch()
    return folder
