"""The one child process of a worker, as its parent sees it: started, woken, waited for, ended.

Two pipes lead to it. Each byte into its standard input wakes its lanes, and the end of that pipe means: finish the
batch in hand and go. Its standard output has a line `worker N` once it has that number among the workers, and a line
whenever all lanes rest: how many bytes it had heard by then.
"""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace

from jobs.dispatch.orders import Orders

log = logging.getLogger(__name__)

EXIT_REFUSED = 78  # the settings or the database are no good: starting again would not help (EX_CONFIG, sysexits.h)
ENTERED = b"worker "
LAST_WORDS_S = 1.0
GRACE_S = 28.0  # from the request to stop until the child is killed; SIGTERM promises an exit within 30 s


class Child:
    """At most one process at a time; threads share it."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._woken = 0  # bytes written to this process
        self._rested = -1  # what it last said
        self._is_closed = False
        self._worker_id: int | None = None
        self._listener: threading.Thread | None = None

    def spawn(self) -> None:
        """Start a process in the place of the last one, which has ended. Where one has run before, this one waits for
        the database whatever it says."""
        orders = replace(self._orders, has_run=self._worker_id is not None)
        # -P: a folder named `worker` in the user's current directory must not be taken for ours.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "worker.lanes", orders.argument()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._orders.environment(),
            start_new_session=True,  # Ctrl-C in the terminal is the parent's business
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)  # a child that hangs must not hang its parent
        with self._changed:
            self._process, self._woken, self._rested = process, 0, -1
        self._listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def worker_id(self) -> int | None:
        """Its number among the workers; None before any process of ours had one. Of a process that ended before it had
        one: that of the last."""
        if self._listener is not None and self.poll() is not None:
            self._listener.join(LAST_WORDS_S)
        return self._worker_id

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll() if self._process else None

    def wait(self, seconds: float) -> int | None:
        """As `poll`, after so many seconds at most."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(seconds)
        return None

    def wake(self) -> None:
        """Let every lane that rests look for work."""
        with self._changed:
            if self._process is None or self._process.stdin is None or self._is_closed:
                return
            with contextlib.suppress(OSError, ValueError):  # it has just died, or reads no more
                self._woken += os.write(self._process.stdin.fileno(), b"w")

    def wait_idle(self, seconds: float) -> bool:
        """Wait until all lanes have looked for work since the last `wake` and rest; whether they do."""
        with self._changed:
            process = self._process
            self._changed.wait_for(
                lambda: self._is_closed or process is not self._process or self._rested >= self._woken, seconds
            )
            return self._rested >= self._woken

    def end(self) -> int:
        """Let it finish the batch in hand and go; kill it if that takes too long. Its exit code."""
        process = self._close()
        if process is None:
            return 0
        try:
            return process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            log.warning("the worker process did not end within %.0f s; killing it", GRACE_S)
            process.kill()
            return process.wait()

    def kill(self) -> None:
        """End it at once. What it held is taken back by the next worker."""
        if self._process is not None:
            self._process.kill()

    def _close(self) -> "subprocess.Popen[bytes] | None":
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
            return self._process

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._changed:
                if process is self._process and line.startswith(ENTERED):
                    self._worker_id = int(line.removeprefix(ENTERED))
                elif process is self._process:
                    self._rested = int(line)
                    self._changed.notify_all()
        with self._changed:  # it has ended: nobody waits for it any more
            if process is self._process:
                self._rested = self._woken
                self._changed.notify_all()
            if process.stdin is not None:
                process.stdin.close()
        process.stdout.close()
