"""Whether the models that come with kvjobs are whole: pip removes files, and writes others, under a running worker."""

import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from jobs.errors import KvjobsError
from worker.models.registry import BUNDLED

PATIENCE_S = 300.0  # longer than pip takes to replace an installation
SETTLED_S = 10.0  # a file that was written more recently than this may be half written
# The reason of a job that waits for the installation of this machine begins so; the job is found again by that.
REASON = f"the installation of kvjobs on {socket.gethostname()} is not whole: "


class InstallationBroken(KvjobsError):
    """A file of kvjobs is missing or being written: trying again in a moment may help."""


class Installation:
    """The files of the bundled models, as they were when this process began. Lanes share it."""

    def __init__(self, folders: Sequence[Path] = tuple(BUNDLED.values())) -> None:
        self._files = [*folders, *(file for folder in folders for file in folder.rglob("*") if file.is_file())]
        self._lock = threading.Lock()
        self._broken_since: float | None = None

    def problem(self) -> str | None:
        """A sentence about a file that is missing or may be half written; None if there is no such file."""
        for file in self._files:
            try:
                age_s = time.time() - file.stat().st_ctime
            except OSError:
                return f"{file} is missing"
            if 0 <= age_s < SETTLED_S and file.is_file():
                return f"{file} was just written"
        return None

    def is_whole(self) -> bool:
        """Whether jobs that waited for the installation can go on."""
        is_whole = self.problem() is None
        if is_whole:
            with self._lock:
                self._broken_since = None
        return is_whole

    def check(self, error: KvjobsError) -> str | None:
        """Why a job that met this error cannot run, if the installation is to blame; None where it is not. Raises
        InstallationBroken in the first minutes: the job is to be tried again."""
        problem = self.problem()
        if problem is None:
            return None
        with self._lock:
            self._broken_since = self._broken_since or time.monotonic()
            is_new = time.monotonic() - self._broken_since < PATIENCE_S
        if is_new:
            raise InstallationBroken(f"{problem} ({error})") from error
        return f"{REASON}{problem}; install it again, and the job goes on"
