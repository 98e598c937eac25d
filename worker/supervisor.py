"""The parent process: starts the child that does the work, replaces it when it dies, and takes back what the dead held.

It never loads onnxruntime nor touches a GPU, so nothing that a model does can bring it down.
"""

import logging
import os
import signal
import sys
import threading
import time
from types import FrameType

from jobs.dispatch.orders import Orders
from jobs.dispatch.outage import Outage
from jobs.dispatch.reaper import reap
from jobs.errors import KvjobsError, StoreError
from jobs.process import how_it_ended
from jobs.store.database import Database
from jobs.store.singleton_roles import new_holder
from worker.process.child import EXIT_REFUSED, Child
from worker.process.connect import connect_with_retry

log = logging.getLogger(__name__)

REAP_EVERY_S = 5.0
MOMENT_S = 20.0  # longer than it takes a worker that lives to connect anew
SHORTEST_LIFE_S = 10.0  # a child that dies sooner is replaced more and more slowly
LONGEST_PAUSE_S = 30.0
INTERRUPTED = 130
LOOK_EVERY_S = 0.2


def supervise(orders: Orders, database: Database, child: Child, stop: threading.Event) -> int:
    """Keep one child at work until `stop` is set or (with `orders.drain`) no work is left; the exit code."""
    reaping = Reaping(database, orders.settings.lease_s)
    reaping.reap()
    threading.Thread(target=reaping.run, args=(stop,), daemon=True).start()
    pause_s = 0.0
    while not stop.wait(pause_s):
        freed = reaping.freed
        child.spawn()
        started = time.monotonic()
        while (code := child.wait(LOOK_EVERY_S)) is None:
            database.cut_connections(orders.settings.lease_s)  # what the reaper asked, say
            if stop.is_set():
                child.end()
                return 0
        if code == EXIT_REFUSED:
            return 1
        if code == 0 and orders.drain:
            reaping.reap()
            if reaping.freed == freed:
                return 0
        if code:
            log.warning("the worker process %s; starting another", how_it_ended(code))
        reaping.soon(child.worker_id())
        lived_long = time.monotonic() - started > SHORTEST_LIFE_S
        pause_s = 0.2 if lived_long or not code else min(max(0.2, 2 * pause_s), LONGEST_PAUSE_S)
    return 0


def main() -> int:
    """The embedded worker of `submit --wait`: as `supervise`, until standard input ends."""
    orders = Orders.from_argument(sys.argv[1])
    logging.basicConfig(level=orders.settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    stop, child = threading.Event(), Child(orders)
    stop_on_signals(stop, child)
    threading.Thread(target=_stop_with_parent, args=(stop,), daemon=True).start()
    try:
        database = connect_with_retry(orders.settings, stop.wait)
        return 0 if database is None else supervise(orders, database, child, stop)
    except KvjobsError as error:
        print(f"kvjobs worker: {error}", file=sys.stderr)
        return error.exit_code


def stop_on_signals(stop: threading.Event, child: Child) -> None:
    """SIGTERM, SIGINT, SIGHUP and SIGQUIT ask to stop; whoever asks a second time is let out at once."""

    def ask(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number != signal.SIGHUP:  # a terminal that closes may send it beside another
            child.kill()
            os._exit(INTERRUPTED)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, ask)


class Reaping:
    """Takes back what the dead held, in a thread of its own: a database that is away must not hold up the parent."""

    def __init__(self, database: Database, lease_s: float) -> None:
        self.freed = 0  # shards so far
        self._database = database
        self._lease_s = lease_s
        self._holder = new_holder()
        self._due = threading.Event()
        self._ended: set[int] = set()  # children of ours: nobody has taken back yet what they held
        self._outage = Outage()
        self._back_at: float | None = float("-inf")  # since when the database answers; None: it is away

    def run(self, stop: threading.Event) -> None:
        """Every few seconds until `stop`."""
        while not stop.is_set():
            self._due.wait(REAP_EVERY_S)
            self._due.clear()
            self.reap()

    def soon(self, ended: int | None) -> None:
        """A child has just died, which was this worker."""
        if ended is not None:
            self._ended.add(ended)
        self._due.set()

    def reap(self) -> None:
        """Once. Where the database was away, leases have run out whose workers live: they have a moment to say so."""
        ended = frozenset(self._ended)
        moment_s = min(MOMENT_S, self._lease_s)
        try:
            is_long_back = self._back_at is not None and time.monotonic() - self._back_at >= moment_s
            self.freed += reap(self._database, self._holder, ended=ended, silent_too=is_long_back)
            if self._back_at is None:
                self._back_at = time.monotonic()
            self._ended.difference_update(ended)
            self._outage.over()
        except StoreError as error:  # whatever it is: the next round may do better, and the worker goes on
            self._back_at = None
            self._outage.met(error)


def _stop_with_parent(stop: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
