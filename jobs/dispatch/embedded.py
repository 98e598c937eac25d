"""The worker that `submit --wait` brings along on a machine where none runs."""

import os
import subprocess
import sys
from pathlib import Path

from jobs.dispatch.orders import Orders
from jobs.errors import KvjobsError
from jobs.settings import Settings

GRACE_S = 40.0  # the worker itself gives its child 30 s


class EmbeddedWorker:
    """A supervisor process of ours, and through it the process that works.

    It ends when we do, however that happens: its standard input is a pipe that only we hold. Its log goes to a file,
    because the terminal belongs to the progress line.
    """

    def __init__(self, settings: Settings) -> None:
        self._log = settings.home / "log" / f"worker-{os.getpid()}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        orders = Orders(settings)
        with self._log.open("ab") as log:
            # -P: a folder named `worker` in the user's current directory must not be taken for ours.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "worker.supervisor", orders.argument()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=orders.environment(),
                start_new_session=True,  # Ctrl-C is for us: we ask the worker to finish its batch
            )

    @property
    def log(self) -> Path:
        """Where its messages go."""
        return self._log

    def check(self) -> bool:
        """Whether it still runs. Raises KvjobsError, with its last words, if it gave up."""
        code = self._process.poll()
        if code is None:
            return True
        if code > 0:
            raise KvjobsError(f"the worker ended with code {code}: {self._last_words()}")
        return False

    def stop(self) -> None:
        """Let it finish the batch in hand and end; kill it if that takes too long."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._log.exists() and not self._log.stat().st_size:
            self._log.unlink()

    def kill(self) -> None:
        """End it at once; its child follows by itself, and what it held is taken back by the next worker."""
        self._process.kill()
        self._process.wait()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'it said nothing'} (more in {self._log})"
