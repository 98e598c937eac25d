"""The embedded worker: a worker process that belongs to the command that started it (`submit --wait`).

When to start one is decided in `jobs/operations/embedded_worker_starter.py`.
"""

import dataclasses
import queue
import subprocess
import sys
import threading
from contextlib import suppress

from jobs.dispatch.worker_arguments import EXIT_DRAINED, WorkerArguments
from jobs.errors import KvjobsError
from jobs.queues import CPU
from jobs.settings import Settings
from jobs.system.process import how_it_ended
from jobs.text.log_lines import TEXT
from jobs.worker_port import EMBEDDED_WORKER

GRACE_S = 40.0  # the worker itself gives its child 30 s


class EmbeddedWorker:
    """A worker's parent process, started as a child of this process; it starts the process that computes.

    It ends when this process ends, however that happens: its standard input is a pipe that only this process holds.
    """

    def __init__(self, settings: Settings, device: str = CPU) -> None:
        """Start the process. It loads its modules and waits for `serve`: until then it opens no database."""
        # Its lines are for a person: this process prints them.
        its_settings = dataclasses.replace(settings, queues="", log_format=TEXT)
        arguments = WorkerArguments(its_settings, device=device, is_early=True)
        # -P: a folder named `worker` in the current directory must not be imported instead of the package.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", EMBEDDED_WORKER, arguments.argument()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # not a file, which could not report a full disk
            env=arguments.environment(),
            start_new_session=True,  # Ctrl-C reaches only this process, which asks the worker to finish its batch
        )
        self.has_job = False
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._last_line = "without a message"
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def serve(self, job_id: int) -> None:
        """Let the worker begin. It serves this job first, then the queues of its device; `settings.queues` is
        ignored."""
        self.has_job = True
        self._write(b"%d\n" % job_id)

    def wake(self) -> None:
        """Let its lanes look for work now: something was committed. To be called after `serve`."""
        self._write(b"\n")

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # the worker has ended, or is to end: `check` says how
            self._process.stdin.write(line)
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """The pid of the worker's parent process; the process that computes is its child."""
        return self._process.pid

    def new_lines(self) -> list[str]:
        """The lines that the worker has written to standard error since the last call: warnings and errors."""
        lines = []
        with suppress(queue.Empty):
            while True:
                lines.append(self._lines.get_nowait())
        return lines

    def check(self) -> bool:
        """Whether the worker still runs. Raises KvjobsError, with its last line, if it failed."""
        code = self._process.poll()
        if code is None:
            return True
        if code > 0 and code != EXIT_DRAINED:
            self._listener.join(timeout=1)
            raise KvjobsError(f"the worker {how_it_ended(code)}: {self._last_line}")
        return False

    def was_drained(self) -> bool:
        """Whether it has ended because a person asked it to drain."""
        return self._process.poll() == EXIT_DRAINED

    def ask_to_stop(self) -> None:
        """Ask the worker to finish its batch and end. Does not wait for that."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def ends_within(self, seconds: float) -> bool:
        """Wait at most `seconds` for the worker's end. Returns whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask the worker to stop, and wait for its end; kill it after `GRACE_S`."""
        self.ask_to_stop()
        try:
            self._process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the parent process. The process that computes then ends by itself, and the next worker takes back its
        leases."""
        self._process.kill()
        self._process.wait()
        self.ask_to_stop()  # closes the pipe

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as pipe:
            for line in pipe:
                self._last_line = line.decode(errors="replace").rstrip()
                self._lines.put(self._last_line)
