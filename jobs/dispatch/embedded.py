"""The embedded worker, which `submit --wait` starts where no other worker serves its job."""

import dataclasses
import queue
import subprocess
import sys
import threading
from contextlib import suppress

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import KvjobsError
from jobs.process import how_it_ended
from jobs.queues import CPU
from jobs.settings import Settings
from jobs.worker_port import SUPERVISOR

GRACE_S = 40.0  # the worker itself gives its child 30 s


class EmbeddedWorker:
    """A supervisor process, and through it the process that computes.

    It ends when this process ends, however that happens: its standard input is a pipe from this process alone.
    """

    def __init__(self, settings: Settings, job_id: int, device: str = CPU) -> None:
        """It serves this job before all others, and the queues of its device, whatever the settings say."""
        arguments = WorkerArguments(dataclasses.replace(settings, queues=""), device=device, first_job=job_id)
        # -P: a folder named `worker` in the current directory must not be imported instead of the package.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", SUPERVISOR, arguments.argument()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # not a file, which could not report a full disk
            env=arguments.environment(),
            start_new_session=True,  # Ctrl-C reaches this process alone, which asks the worker to finish its batch
        )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._last = "without a message"
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def new_lines(self) -> list[str]:
        """The lines of its standard error since the last call: warnings and errors."""
        lines = []
        with suppress(queue.Empty):
            while True:
                lines.append(self._said.get_nowait())
        return lines

    def check(self) -> bool:
        """Whether it still runs. Raises KvjobsError, with its last line, where it failed."""
        code = self._process.poll()
        if code is None:
            return True
        if code > 0:
            self._listener.join(timeout=1)
            raise KvjobsError(f"the worker {how_it_ended(code)}: {self._last}")
        return False

    def ask_to_stop(self) -> None:
        """Ask it to finish the batch in hand and end; does not wait."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def ends_within(self, seconds: float) -> bool:
        """Wait at most so long for its end; whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask it to stop and wait for its end; kill it after `GRACE_S`."""
        self.ask_to_stop()
        try:
            self._process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it. Its child ends by itself, and the next worker takes back its leases."""
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as pipe:
            for line in pipe:
                self._last = line.decode(errors="replace").rstrip()
                self._said.put(self._last)
