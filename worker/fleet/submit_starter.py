"""Starts the process that answers the Celery task `kvjobs.submit`, while its queue has messages.

One worker of the fleet, the dispatcher, looks. The process is one of its own, since the models of a submit are opened
to see what they can do, which a worker's parent never does.
"""

import subprocess
import sys

from celery import Celery

from jobs.dispatch.broker import waiting_submits
from jobs.dispatch.worker_arguments import WorkerArguments

PROCESS = "worker.fleet.submit_process"


class SubmitStarter:
    """Starts the process while the queue has messages; at most one runs."""

    def __init__(self, app: Celery, arguments: WorkerArguments) -> None:
        self._app = app
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        """Start the process if there is a message and it does not run. Raises BrokerError."""
        if self._process is not None and self._process.poll() is None:
            return
        if waiting_submits(self._app):
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
