"""Starts the process that answers the Celery task `kvjobs.submit`, while its queue has messages.

One worker of the fleet, the dispatcher, looks. The process is one of its own, since the models of a submit are opened
to see what they can do, which a worker's parent never does.
"""

import logging
import subprocess
import sys
import time

from celery import Celery

from jobs.dispatch.submit_messages import waiting_submits
from jobs.dispatch.worker_arguments import WorkerArguments

PROCESS = "worker.fleet.submit_process"
LONGEST_PAUSE_S = 300.0
log = logging.getLogger(__name__)


class SubmitStarter:
    """Starts the process while the queue has messages; at most one runs. After a crash it starts later each time: a
    message may be to blame, which comes again."""

    def __init__(self, app: Celery, arguments: WorkerArguments) -> None:
        self._app = app
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._pause_s = 1.0
        self._not_before = 0.0

    def look(self) -> None:
        """Start the process if there is a message and it does not run. Raises BrokerError."""
        if self._process is not None:
            if (code := self._process.poll()) is None:
                return
            self.end()
            self._process = None
            self._note_end(code)
        if time.monotonic() >= self._not_before and waiting_submits(self._app):
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", PROCESS, self._arguments.argument()],
                stdin=subprocess.PIPE,  # its end tells that this process has ended
                stdout=subprocess.DEVNULL,
                env=self._arguments.environment(),
                start_new_session=True,
            )

    def end(self) -> None:
        """Let the process finish its message and end."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _note_end(self, code: int) -> None:
        if code == 0:
            self._pause_s = 1.0
            return
        log.warning(
            "the process that answers kvjobs.submit ended with %d; it starts again in %.0f s", code, self._pause_s
        )
        self._not_before = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
