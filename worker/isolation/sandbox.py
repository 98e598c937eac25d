"""A process in which a document can hurt nobody: started, fed, watched, and killed by a lane.

Frames are pickles over a pair of sockets. To the sacrifice: a JobSpec, then an Order for each batch. From it: READY
once, ALIVE at most once a second, and for each order a Produced or the exception that the engine raised.
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

from jobs.dispatch.orders import Orders
from jobs.errors import Stopped
from jobs.process import how_it_ended
from jobs.spec import JobSpec
from jobs.store.batches import Batch
from worker.engine.tasks.batch_result import BatchResult

log = logging.getLogger(__name__)

READY, ALIVE = "ready", "alive"
TICK_S = 0.1
LAST_WORDS_S = 2.0  # from SIGABRT, at which it says where it hangs, to SIGKILL


@dataclass(frozen=True, slots=True)
class SandboxOrder:
    """A batch to translate, and how long the driver puts up with silence."""

    batch: Batch
    deadline_s: float


class SandboxDied(Exception):
    """The process is gone, and what it had in hand may be why."""

    def __init__(self, code: str, how: str) -> None:
        super().__init__(how)
        self.code = code  # "killed" or "hung"
        self.how = how  # for a person: "killed by SIGSEGV"


class Sandbox:
    """One sacrificial process. It ends with `close`, and with this process however that ends."""

    def __init__(
        self, orders: Orders, spec: JobSpec, deadline_s: Callable[[], float], must_stop: Callable[[], bool]
    ) -> None:
        """Start it and wait until its model is loaded, however long that takes.

        Raises what it met on the way, Died where it ended, and Stopped where `must_stop` says so.
        """
        self._deadline_s = deadline_s
        self._must_stop = must_stop
        self._connection, theirs = multiprocessing.Pipe()
        with theirs:
            # The other end of its standard input is open in this process alone: the pipe ends with it.
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "worker.isolation.sandbox_process",
                    orders.argument(),
                    str(theirs.fileno()),
                ],
                stdin=subprocess.PIPE,
                env=orders.environment(),
                pass_fds=[theirs.fileno()],
            )
        try:
            self._send(spec)
            self._receive(float("inf"))
        except BaseException:
            self.close()
            raise

    def translate(self, batch: Batch) -> BatchResult:
        """What the batch became in there. Raises what the engine raised; Died where the process ended or gave no sign
        of life for too long; Stopped where `must_stop` says so. After these two the cage is of no more use."""
        deadline_s = self._deadline_s()
        self._send(SandboxOrder(batch, deadline_s))
        result = self._receive(deadline_s)
        assert isinstance(result, BatchResult)
        return result

    def close(self) -> None:
        """Kill the process, if it still lives."""
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
        """The next frame that is no sign of life. Silence is counted in ticks: see `worker.process.watchdog`."""
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
            if isinstance(frame, BaseException):
                raise frame
            if frame not in (None, ALIVE):
                return frame
        self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LAST_WORDS_S)
        self._process.kill()
        raise SandboxDied("hung", f"gave no sign of life for {deadline_s:g} s")

    def _death(self) -> SandboxDied:
        """It closed its end, so it is as good as gone."""
        try:
            code = self._process.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return SandboxDied("killed", how_it_ended(code))
