"""The parent process: starts the child that does the work, replaces it when it dies, frees the shards of dead workers.

It loads no onnxruntime and touches no GPU, so nothing that a model does can end it.
"""

import logging
import os
import signal
import threading
import time
from types import FrameType

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.process import how_it_ended
from jobs.store.database import Database
from worker.process.child_handle import EXIT_DRAINED, EXIT_REFUSED, Child
from worker.process.frozen_child import FrozenChild
from worker.process.reaper_thread import ReaperThread

log = logging.getLogger(__name__)

SHORTEST_LIFE_S = 10.0  # the pause before a child is replaced doubles with each that ends sooner
LONGEST_PAUSE_S = 30.0
INTERRUPTED = 130
LOOK_EVERY_S = 0.2


def supervise(arguments: WorkerArguments, database: Database, child: Child, stop: threading.Event) -> int:
    """Keep one child running until `stop` is set or (with `arguments.drain`) no work is left; the exit code."""
    reaper = ReaperThread(database, arguments.settings.lease_s)
    reaper.reap()
    reaper.start(stop)
    pause_s = 0.0
    while not stop.wait(pause_s):
        num_freed = reaper.num_freed
        child.spawn()
        started = time.monotonic()
        frozen = FrozenChild(child, arguments.settings.lease_s, arguments.settings.hang_s)
        while (code := child.wait(LOOK_EVERY_S)) is None:
            database.cut_connections(arguments.settings.lease_s)  # of the reaper, and of the dispatcher if there is one
            if stop.is_set():
                child.end()
                return 0
            frozen.look()
        if stop.is_set():
            child.end()
            return 0
        if code == EXIT_REFUSED:
            return 1
        if code == EXIT_DRAINED:
            log.warning("the worker was asked to drain: it has finished its shards, and ends")
            return 0
        if code == 0 and arguments.drain:
            reaper.reap()
            if reaper.num_freed == num_freed:
                return 0
        if code:
            log.warning("the worker process %s; starting another", how_it_ended(code))
        reaper.reap_soon(child.worker_id())
        lived_long = time.monotonic() - started > SHORTEST_LIFE_S
        pause_s = 0.2 if lived_long or not code else min(max(0.2, 2 * pause_s), LONGEST_PAUSE_S)
    return 0


def stop_on_signals(stop: threading.Event, child: Child) -> None:
    """SIGTERM, SIGINT, SIGHUP and SIGQUIT set `stop`; a second one kills the child and exits at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number != signal.SIGHUP:  # a terminal that closes may send it along with another
            child.kill()
            os._exit(INTERRUPTED)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, handle)
