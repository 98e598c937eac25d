"""The parent process: starts the child that does the work, replaces it when it dies, frees the shards of dead workers.

It loads no onnxruntime and touches no GPU, so nothing that a model does can end it.
"""

import logging
import os
import signal
import threading
import time
from types import FrameType

from jobs.dispatch.database_outage import DatabaseOutage
from jobs.dispatch.delta_folding import DeltaFolding
from jobs.dispatch.reaper import reap
from jobs.dispatch.webhooks import WebhookSender
from jobs.dispatch.worker_arguments import EXIT_DRAINED, WorkerArguments
from jobs.errors import StoreError
from jobs.store.database import Database
from jobs.store.singleton_roles import new_holder
from jobs.system.process import how_it_ended
from worker.process.child_handle import EXIT_REFUSED, Child
from worker.process.frozen_writer import FrozenWriter

log = logging.getLogger(__name__)
SHORTEST_LIFE_S = 10.0  # the pause before a child is replaced doubles with each that ends sooner
LONGEST_PAUSE_S = 30.0
INTERRUPTED = 130
LOOK_EVERY_S = 0.2
REAP_EVERY_S = 5.0
RECONNECT_S = 20.0  # longer than a live worker takes to reconnect
LONGEST_LOOK_S = 1.0  # a longer time between two looks counts as this much
TOLD_AFTER_S = 1.0
TRACEBACK_S = 5.0  # for a process that prints where it hangs


def supervise(arguments: WorkerArguments, database: Database, child: Child, stop: threading.Event) -> int:
    """Keep one child running until `stop` is set or (with `arguments.drain`) no work is left; the exit code,
    EXIT_DRAINED where a person has asked the worker to drain."""
    reaper = ReaperThread(database, arguments.settings.lease_s)
    reaper.reap()
    reaper.start(stop)
    DeltaFolding(database, new_holder()).start(stop)
    webhooks = WebhookSender(database, arguments.settings)
    webhooks.start(stop)
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
            webhooks.finish()
            return EXIT_DRAINED
        if code == 0 and arguments.drain:
            reaper.reap()
            if reaper.num_freed == num_freed:
                webhooks.finish()
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


class ReaperThread:
    """Frees shards of dead workers every few seconds, and soon after a child of this worker has ended. A thread of its
    own: a database that is unreachable must not block the parent."""

    def __init__(self, database: Database, lease_s: float) -> None:
        self.num_freed = 0  # shards that were freed so far
        self._database = database
        self._lease_s = lease_s
        self._holder = new_holder()
        self._due = threading.Event()
        self._ended: set[int] = set()  # workers that were children of this process; their shards may not be free yet
        self._outage = DatabaseOutage()
        self._frozen_writer = FrozenWriter(database, lease_s)
        self._answers_since: float | None = float("-inf")  # None: the database does not answer

    def start(self, stop: threading.Event) -> None:
        """Reap every few seconds until `stop` is set."""
        threading.Thread(target=self._run, args=(stop,), daemon=True).start()

    def reap_soon(self, ended: int | None) -> None:
        """Reap soon: a child of this process has ended. `ended`: its id as a worker, None if it had none."""
        if ended is not None:
            self._ended.add(ended)
        self._due.set()

    def reap(self) -> None:
        """Reap once. After an outage of the database the leases of live workers have run out too: these get
        `RECONNECT_S` (but no more than a lease lasts) to prolong them."""
        ended = frozenset(self._ended)
        grace_s = min(RECONNECT_S, self._lease_s)
        try:
            is_long_back = self._answers_since is not None and time.monotonic() - self._answers_since >= grace_s
            self.num_freed += reap(self._database, self._holder, ended=ended, silent_too=is_long_back)
            if self._answers_since is None:
                self._answers_since = time.monotonic()
            self._ended.difference_update(ended)
            self._outage.over()
        except StoreError as error:  # of any kind: the next round may succeed, and the worker goes on meanwhile
            self._answers_since = None
            self._outage.met(error)

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._due.wait(REAP_EVERY_S)
            self._due.clear()
            self.reap()
            self._frozen_writer.look()


class FrozenChild:
    """Watches the child of a worker: one that is stopped, or gives no sign of life, is ended, as whatever it has locked
    stays locked.

    Time is counted in looks of the parent, so a parent that was suspended itself takes no child for frozen meanwhile.
    """

    def __init__(self, child: Child, lease_s: float, hang_s: float) -> None:
        self._child = child
        # After one lease others have its shards; a process that somebody woke after two would find nothing left to do.
        self._stopped_at_most_s = 2 * lease_s
        self._silent_at_most_s = max(hang_s, 2 * lease_s)
        self._stopped_s = self._silent_s = 0.0
        self._heard = 0  # signs of life; before the first, the process loads its modules
        self._looked_at = time.monotonic()

    def look(self) -> None:
        """End the child if it is frozen; to be called several times a second."""
        now = time.monotonic()
        passed_s, self._looked_at = min(now - self._looked_at, LONGEST_LOOK_S), now
        if self._child.is_stopped():
            self._was_stopped(passed_s)
            return
        self._stopped_s = 0.0
        heard, self._heard = self._heard, self._child.signs_of_life
        if heard and heard == self._heard:
            self._was_silent(passed_s)
        else:
            self._silent_s = 0.0

    def _was_stopped(self, passed_s: float) -> None:
        before, self._stopped_s = self._stopped_s, self._stopped_s + passed_s
        if before <= TOLD_AFTER_S < self._stopped_s:
            log.warning(
                "the worker process %s is stopped by a signal; it is ended after %.0f s unless you let it go on: "
                "kill -CONT %s",
                self._child.pid, self._stopped_at_most_s, self._child.pid,
            )  # fmt: skip
        if self._stopped_s > self._stopped_at_most_s:
            log.warning("the worker process %s stayed stopped; ending it", self._child.pid)
            self._child.kill()

    def _was_silent(self, passed_s: float) -> None:
        before, self._silent_s = self._silent_s, self._silent_s + passed_s
        if before <= self._silent_at_most_s < self._silent_s:
            log.warning("no sign of life from the worker process %s for %.0f s; ending it", self._child.pid, before)
            self._child.abort()
        if self._silent_s > self._silent_at_most_s + TRACEBACK_S:
            self._child.kill()
