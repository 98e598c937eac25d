"""A disposable process, in which a document can kill nothing else: a lane starts it, sends it batches, and kills it.

Frames are pickles over a pair of sockets. To the process: a JobSpec, then a `SandboxBatch` for each batch. From it:
READY once, ALIVE at most once a second, and for each of these `Answers` or the exception that the engine raised.
"""

import contextlib
import logging
import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs.answers import Answers
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import StageDied, Stopped
from jobs.store.queue.batches import Batch
from jobs.system.process import how_it_ended
from worker.providers.protocol import ProviderJob

log = logging.getLogger(__name__)

READY, ALIVE = "ready", "alive"
TICK_S = 0.1
TRACEBACK_S = 2.0  # from SIGABRT, at which the process prints where it hangs, to SIGKILL


@dataclass(frozen=True, slots=True)
class SandboxBatch:
    """A batch to process."""

    batch: Batch
    deadline_s: float  # the longest time without a sign of life


class SandboxDied(Exception):
    """The process ended, or was killed because it hung; the documents it was processing may be the cause."""

    def __init__(self, code: str, how: str) -> None:
        super().__init__(how)
        self.code = code  # "killed" or "hung"
        self.how = how  # for a person: "killed by SIGSEGV"


class Sandbox:
    """One disposable process. It ends at `close`, and when this process ends, however that happens."""

    def __init__(
        self,
        arguments: WorkerArguments,
        job: ProviderJob,
        deadline_s: Callable[[], float],
        must_stop: Callable[[], bool],
    ) -> None:
        """Start the process and wait until it has loaded the model, however long that takes.

        Raises the error that loading raised, SandboxDied where the process ended, Stopped where `must_stop` says so.
        """
        self._deadline_s = deadline_s
        self._must_stop = must_stop
        self._connection, theirs = multiprocessing.Pipe()
        with theirs:
            # Only this process holds the other end of the child's standard input: the pipe ends when this process does.
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "worker.isolation.sandbox_process",
                    arguments.argument(),
                    str(theirs.fileno()),
                ],
                stdin=subprocess.PIPE,
                env=arguments.environment(),
                pass_fds=[theirs.fileno()],
            )
        try:
            self._send(job)
            self._receive(float("inf"))
        except BaseException:
            self.close()
            raise

    def process(self, batch: Batch) -> Answers:
        """Process a batch in the sandbox.

        Raises what the engine raised; SandboxDied where the process ended or gave no sign of life for too long; Stopped
        where `must_stop` says so. After the latter two, the sandbox can only be closed.
        """
        deadline_s = self._deadline_s()
        self._send(SandboxBatch(batch, deadline_s))
        result = self._receive(deadline_s)
        assert isinstance(result, Answers)
        return result

    def close(self) -> None:
        """Kill the process if it still runs."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._connection.close()

    def _send(self, frame: object) -> None:
        try:
            self._connection.send(frame)
        except OSError:
            raise self._death() from None

    def _receive(self, deadline_s: float) -> Any:
        """The next frame that is not ALIVE. Silence is counted in ticks, as in `worker.process.watchdog`."""
        silent_s, before = 0.0, time.monotonic()
        while silent_s <= deadline_s:
            if self._must_stop():
                raise Stopped("stopped while another process worked on the batch")
            try:
                frame = self._connection.recv() if self._connection.poll(TICK_S) else None
            except (EOFError, OSError):
                raise self._death() from None
            now = time.monotonic()
            silent_s = 0.0 if frame is not None else silent_s + min(now - before, 2 * TICK_S)
            before = now
            if isinstance(frame, StageDied):
                raise SandboxDied("killed", f"lost a part of the model: {frame}")
            if isinstance(frame, BaseException):
                raise frame
            if frame not in (None, ALIVE):
                return frame
        self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(TRACEBACK_S)
        self._process.kill()
        raise SandboxDied("hung", f"gave no sign of life for {deadline_s:g} s")

    def _death(self) -> SandboxDied:
        """How the process ended: it has closed its end of the connection."""
        try:
            code = self._process.wait(TRACEBACK_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return SandboxDied("killed", how_it_ended(code))
