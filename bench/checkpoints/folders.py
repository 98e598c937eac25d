"""Folders and files that are made once and then used by every run of a benchmark."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def made_once(folder: Path, command: Callable[[Path], list[str]]) -> Path:
    """Return `folder`; if it is missing, run `python -m` with `command(folder)`, which makes all of it or nothing.

    The command runs in a process of its own, so that what exporters and converters load does not add to the memory of
    the process that is measured. Raises RuntimeError with the end of the command's error output.
    """
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", *command(part)], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(part, ignore_errors=True)
        raise RuntimeError(f"{folder} could not be made: {done.stderr.strip()[-2000:]}")
    part.rename(folder)
    return folder
