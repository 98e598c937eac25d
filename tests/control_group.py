"""A control group of the test's own, for a process to join. Where none can be made, the test is skipped."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from jobs.system.process import ROOT, _groups

JOINED = 'echo $$ > "$0"/cgroup.procs && exec "$@"'


@contextmanager
def control_group(controller: str, limits: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """The beginning of a command line that runs the rest of it in a group with these limits: a file's name and text, of
    version 1 or 2, whichever this machine has."""
    group = next((made for above in _groups(controller, ROOT) if (made := _make(above, limits))), None)
    if group is None:
        pytest.skip(f"no control group with the controller {controller} can be made here")
    try:
        yield ("sh", "-c", JOINED, str(group))
    finally:
        group.rmdir()


def _make(above: Path, limits: dict[str, str]) -> Path | None:
    group = above / f"kvjobs-test-{os.getpid()}"
    with suppress(OSError):
        group.mkdir()
        with suppress(OSError):
            known = [name for name in limits if (group / name).exists()]
            for name in known:
                (group / name).write_text(limits[name])
            if known:
                return group
        group.rmdir()
    return None
