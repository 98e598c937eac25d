"""The child's end of the two pipes to its parent. The other end, and the messages: `child_handle.py`."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable

from worker.process.child_handle import ALIVE, REGISTERED
from worker.process.wakeup import Wakeup


class ParentPipe:
    """Requests of the parent (look for work, stop), and reports to it."""

    def __init__(self, lanes: int) -> None:
        """From now on, what a library prints to standard output goes to standard error: the parent must not take it for
        a report."""
        self.wakeup = Wakeup(lanes, on_idle=lambda count: self._report(b"%d" % count))
        self._reports = os.dup(sys.stdout.fileno())
        os.set_blocking(self._reports, False)  # the parent does not read while it is suspended
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._stopped = threading.Event()
        self._has_job = threading.Event()  # or is to stop
        self._job_id: int | None = None
        self._on_stop: Callable[[], None] | None = None

    def wait_job(self) -> int | None:
        """The number of the job that this process, which was started early, serves first; None where it is to stop."""
        self._has_job.wait()
        return self._job_id

    def listen(self, *, is_early: bool = False) -> None:
        """Read the number of the job where this process was `is_early`. Then wake the lanes at each byte, until the
        pipe ends; then stop."""
        line = b""
        while is_early and (byte := os.read(sys.stdin.fileno(), 1)):  # bytes after the line wake the lanes
            if byte == b"\n":
                self._job_id = int(line)
                self._has_job.set()
                break
            line += byte
        while read := os.read(sys.stdin.fileno(), 4096):
            self.wakeup.wake(len(read))
        self.stop()

    def stop(self) -> None:
        """The parent, or a signal, asks this process to stop."""
        self._stopped.set()
        self._has_job.set()
        if self._on_stop:
            self._on_stop()

    def wait_stop(self, seconds: float) -> bool:
        """Wait at most `seconds`. Returns whether this process is to stop."""
        return self._stopped.wait(seconds)

    def call_at_stop(self, on_stop: Callable[[], None]) -> None:
        """Call it at the request to stop, or now where the request has come."""
        self._on_stop = on_stop
        if self._stopped.is_set():
            on_stop()

    def report_registered(self, worker_id: int) -> None:
        """Tell the parent the id of this worker in the database."""
        self._report(REGISTERED + b"%d" % worker_id)

    def report_alive(self) -> None:
        """Tell the parent that this process runs."""
        self._report(ALIVE)

    def _report(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # the parent is suspended, or has ended, and the other pipe with it
            os.write(self._reports, line + b"\n")
