"""The program of a sandbox (`worker.isolation.sandbox`): processes batches until a document or its lane kills it.

It writes nothing to the database. Its standard input is a pipe that its lane's process holds open and never writes to.
"""

import faulthandler
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection

from jobs.answers import Answers
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import KvjobsError
from jobs.store.database import Database
from worker.engine.runtime.run_context import RunContext
from worker.isolation.bisect import BisectingLane
from worker.isolation.sandbox import ALIVE, READY, SandboxBatch
from worker.lane import Lane
from worker.process.memory_limits import limit_to_free, set_oom_score
from worker.process.work_log import log_to_stderr
from worker.providers.protocol import ProviderJob
from worker.providers.registry import Providers
from worker.stored_memory import StoredMemory


def main() -> None:
    """Process the batches that arrive on the connection whose file descriptor is the second argument."""
    arguments = WorkerArguments.from_argument(sys.argv[1])
    log_to_stderr(arguments.settings)
    faulthandler.enable(all_threads=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the worker; death by a signal would be blamed on a document
    threading.Thread(target=_die_with_parent, daemon=True).start()
    set_oom_score(1000)
    limit_to_free()
    connection: Connection = Connection(int(sys.argv[2]))
    try:
        _serve(connection, arguments)
    except EOFError:  # no more batches
        return
    except KvjobsError as error:
        connection.send(error)


def _serve(connection: Connection, arguments: WorkerArguments) -> None:
    settings = arguments.settings
    job: ProviderJob = connection.recv()
    # Without the check of the schema: the lane's process has done it.
    database = Database.connect(settings.database_url, busy_timeout_s=settings.busy_timeout_s)
    lane = BisectingLane(Lane(0, Providers(arguments)).provider(job.choice.name))
    lane.open(job)
    keep_alive = _KeepAlive(connection, every_s=min(1.0, settings.hang_s / 4))
    run = RunContext(should_stop=keep_alive, memory=StoredMemory(database))

    connection.send(READY)
    while True:
        request: SandboxBatch = connection.recv()
        # If the lane's process dies while a document holds the interpreter's lock, no thread here can notice.
        faulthandler.dump_traceback_later(request.deadline_s + 60, exit=True, repeat=False)
        keep_alive.deadline_s = request.deadline_s
        try:
            frame: Answers | KvjobsError = lane.process(job, request.batch, run)
        except KvjobsError as error:
            frame = error
        faulthandler.cancel_dump_traceback_later()
        connection.send(frame)


class _KeepAlive:
    """Called by the engine between two steps, where it asks whether to stop: sends ALIVE to the lane. The answer is
    always no, as the lane kills this process instead."""

    def __init__(self, connection: Connection, every_s: float) -> None:
        self.deadline_s = 0.0
        self._connection = connection
        self._every_s = every_s
        self._last = 0.0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._last > self._every_s:
            self._connection.send(ALIVE)
            faulthandler.dump_traceback_later(self.deadline_s + 60, exit=True)
            self._last = now
        return False


def _die_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
