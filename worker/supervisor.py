"""The parent process: starts the child that does the work, replaces it when it dies, and takes back what the dead held.

It never loads onnxruntime nor touches a GPU, so nothing that a model does can bring it down.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

from jobs.dispatch.orders import Orders
from jobs.dispatch.reaper import reap
from jobs.errors import KvjobsError, TransientError
from jobs.store.database import Database

log = logging.getLogger(__name__)

EXIT_REFUSED = 78  # see worker.lanes
GRACE_S = 30.0  # from the request to stop until the child is killed
REAP_EVERY_S = 5.0
SHORTEST_LIFE_S = 10.0  # a child that dies sooner is replaced more and more slowly
LONGEST_PAUSE_S = 30.0


def supervise(orders: Orders, stop: threading.Event) -> int:
    """Keep one child at work until `stop` is set or (with `orders.drain`) no work is left; the exit code."""
    database = Database.open(orders.settings.database_url, busy_timeout_s=orders.settings.busy_timeout_s)
    pause_s = 0.0
    while not stop.wait(pause_s):
        _reap(database)
        child, started = _spawn(orders), time.monotonic()
        code = _attend(child, database, stop)
        if stop.is_set():
            break
        if code == EXIT_REFUSED:
            return 1
        if code == 0 and orders.drain and not _reap(database):
            return 0
        if code:
            log.warning("the worker process ended with code %d; starting another", code)
        _reap(database)
        lived_long = time.monotonic() - started > SHORTEST_LIFE_S
        pause_s = 0.2 if lived_long or not code else min(max(0.2, 2 * pause_s), LONGEST_PAUSE_S)
    return 0


def main() -> int:
    """The embedded worker of `submit --wait`: as `supervise`, until standard input ends."""
    orders = Orders.from_argument(sys.argv[1])
    logging.basicConfig(level=orders.settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    stop_on_signals(stop)
    threading.Thread(target=_stop_with_parent, args=(stop,), daemon=True).start()
    try:
        return supervise(orders, stop)
    except KvjobsError as error:
        print(f"kvjobs worker: {error}", file=sys.stderr)
        return error.exit_code


def stop_on_signals(stop: threading.Event) -> None:
    """SIGTERM, SIGINT and SIGHUP ask to stop."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ask)


def _spawn(orders: Orders) -> "subprocess.Popen[bytes]":
    # -P: a folder named `worker` in the user's current directory must not be taken for ours.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "worker.lanes", orders.argument()],
        stdin=subprocess.PIPE,
        env=orders.environment(),
        start_new_session=True,  # Ctrl-C in the terminal is the parent's business
    )


def _attend(child: "subprocess.Popen[bytes]", database: Database, stop: threading.Event) -> int:
    """Wait for the child to end, reaping meanwhile; end it when asked to stop."""
    next_reap = time.monotonic() + REAP_EVERY_S
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=0.2)
        if stop.is_set():
            return _end(child)
        if time.monotonic() > next_reap:
            _reap(database)
            next_reap = time.monotonic() + REAP_EVERY_S


def _end(child: "subprocess.Popen[bytes]") -> int:
    assert child.stdin is not None
    child.stdin.close()  # the child takes it as: finish the batch in hand
    try:
        return child.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        log.warning("the worker process did not end within %.0f s; killing it", GRACE_S)
        child.kill()
        return child.wait()


def _reap(database: Database) -> int:
    try:
        return reap(database)
    except TransientError as error:
        log.warning("%s", error)
        return 0


def _stop_with_parent(stop: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
