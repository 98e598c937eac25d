"""The one child process of a worker, as its parent sees it: started, woken, waited for, ended.

Two pipes connect them. To a child that was started early, the first line is the number of its job. Then each byte on
its standard input wakes its lanes; the end of that pipe asks it to finish the current batch and exit. On its standard
output the child writes a line `worker N` once the database knows it by the id N, a line `alive` at each tick of its
watchdog, and whenever all lanes wait, a line with the number of bytes that it has read since that first line.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.system.process import is_stopped
from jobs.text.log_lines import set_process_fields

log = logging.getLogger(__name__)

EXIT_REFUSED = 78  # wrong settings or database: starting again would not help (EX_CONFIG, sysexits.h)
REGISTERED, ALIVE = b"worker ", b"alive"
READ_REPORTS_S = 1.0  # for the reports of a process that has just ended
GRACE_S = 28.0  # from the request to stop until the child is killed; SIGTERM promises an exit within 30 s


class Child:
    """The child process of a worker: at most one runs at a time. Threads share this object."""

    def __init__(self, arguments: WorkerArguments) -> None:
        self.first_job = arguments.first_job  # of the next `spawn`
        self._arguments = arguments
        self._is_early = False  # the current process waits for its job
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._woken = 0  # bytes written to the current process
        self.signs_of_life = 0  # lines `alive` of the current process
        self._idle_at = -1  # bytes that it had read when all its lanes last waited
        self._is_closed = False
        self._worker_id: int | None = None
        self._listener: threading.Thread | None = None

    def start_early(self) -> None:
        """Start a process that loads its modules, then waits until `spawn` tells it the job."""
        self._is_early = True
        self._start(replace(self._arguments, is_early=True))

    def spawn(self) -> None:
        """Start a process after the last one has ended; or let the process begin that was started early. A process
        that replaces another waits for the database whatever error it answers with."""
        if not self._is_early:
            arguments = replace(self._arguments, is_early=False, first_job=self.first_job, replaces=self._worker_id)
            self._start(arguments)
            return
        with self._changed:
            process = self._process
            assert process is not None
            assert process.stdin is not None
            assert self.first_job is not None
            with contextlib.suppress(OSError, ValueError):  # it has ended, or is to end
                os.write(process.stdin.fileno(), b"%d\n" % self.first_job)
            self._is_early = False

    def _start(self, arguments: WorkerArguments) -> None:
        # -P: Python must not import a folder named `worker` in the user's current directory.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "worker.child_process", arguments.argument()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._arguments.environment(),
            start_new_session=True,  # Ctrl-C in the terminal reaches the parent alone
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)  # a child that hangs must not block its parent
        with self._changed:
            self._process, self._woken, self._idle_at, self.signs_of_life = process, 0, -1, 0
        self._listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def is_stopped(self) -> bool:
        """Whether the process is stopped by a signal such as SIGSTOP."""
        return self._process is not None and is_stopped(self._process.pid)

    def worker_id(self) -> int | None:
        """The id in the database of the current process; until it has one, the id of the process before; None
        until the first process has one."""
        if self._listener is not None and self.poll() is not None:
            self._listener.join(READ_REPORTS_S)
        return self._worker_id

    def poll(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._process.poll() if self._process else None

    def wait(self, seconds: float) -> int | None:
        """As `poll`, after waiting `seconds` at most for the process to end."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(seconds)
        return None

    def wake(self) -> None:
        """Let every lane that waits look for work. A process that waits for its job looks when it has it."""
        with self._changed:
            if self._process is None or self._process.stdin is None or self._is_closed or self._is_early:
                return
            with contextlib.suppress(OSError, ValueError):  # it has just ended, or does not read
                self._woken += os.write(self._process.stdin.fileno(), b"w")

    def wait_idle(self, seconds: float) -> bool:
        """Wait until all lanes have looked for work since the last `wake` and found none; whether they have."""
        with self._changed:
            process = self._process
            self._changed.wait_for(
                lambda: self._is_closed or process is not self._process or self._idle_at >= self._woken, seconds
            )
            return self._idle_at >= self._woken

    def ask_to_end(self) -> None:
        """Ask the process to finish the current batch and exit. Does not wait for that."""
        self._close()

    def end(self) -> int:
        """As `ask_to_end`, then wait for the end; kill the process if that takes too long. Returns its exit code."""
        process = self._close()
        if process is None:
            return 0
        try:
            return process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            log.warning("the worker process did not end within %.0f s; killing it", GRACE_S)
            process.kill()
            return process.wait()

    def abort(self) -> None:
        """Send SIGABRT: the process prints where it is, and ends."""
        if self._process is not None:
            self._process.send_signal(signal.SIGABRT)

    def kill(self) -> None:
        """Kill the process. Its shards become ready again when a reaper sees that it has died."""
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
                if process is self._process and line.startswith(REGISTERED):
                    self._worker_id = int(line.removeprefix(REGISTERED))
                    set_process_fields(worker=self._worker_id)
                elif process is self._process and line.startswith(ALIVE):
                    self.signs_of_life += 1
                elif process is self._process:
                    self._idle_at = int(line)
                    self._changed.notify_all()
        with self._changed:  # it has ended: `wait_idle` returns
            if process is self._process:
                self._idle_at = self._woken
                self._changed.notify_all()
            if process.stdin is not None:
                process.stdin.close()
        process.stdout.close()
