"""The child process: holds the sessions, and runs N lanes (threads) and a heartbeat until it is told to stop.

Started by `worker.supervisor` as a fresh process, never as a fork: a session's threads and a GPU's context do not
survive one. Its standard input is a pipe that its parent holds open and never writes to: when the parent ends, however
that happens, the pipe ends too, and the child finishes the batch in hand and goes.
"""

import logging
import os
import random
import signal
import sys
import threading
import traceback

from jobs.dispatch.orders import Orders
from jobs.errors import KvjobsError, TransientError
from jobs.process import available_cores
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.workers import register, retire
from worker.drain import drain
from worker.engine.session import PROVIDER
from worker.shift import Shift
from worker.warm import Lane, WarmModels, warmth

log = logging.getLogger(__name__)

EXIT_REFUSED = 78  # the settings or the database are no good: starting again would not help (EX_CONFIG, sysexits.h)
LONGEST_PAUSE_S = 30.0


def main() -> int:
    """Run the lanes as ordered; the exit code."""
    orders = Orders.from_argument(sys.argv[1])
    logging.basicConfig(level=orders.settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the parent decides
    try:
        database = Database.open(orders.settings.database_url, busy_timeout_s=orders.settings.busy_timeout_s)
    except KvjobsError as error:
        print(f"kvjobs worker: {error}", file=sys.stderr)
        return EXIT_REFUSED
    return _run(database, orders)


def _run(database: Database, orders: Orders) -> int:
    settings = orders.settings
    num_lanes = settings.lanes or available_cores()
    # One thread a lane beat one session with as many threads by 1.4 to 1 on two cores: the lanes never wait for
    # each other at the end of a product.
    models = WarmModels(settings.models_dir, threads=max(1, available_cores() // num_lanes))
    lanes = [Lane(number, models) for number in range(num_lanes)]
    worker_id = register(database, device="cpu", provider=PROVIDER, lanes=num_lanes)
    shift = Shift(database, worker_id, lease_s=settings.lease_s, heartbeat_s=settings.heartbeat_s)
    signal.signal(signal.SIGTERM, lambda *_: shift.stop())
    threading.Thread(target=_stop_with_parent, args=(shift,), daemon=True).start()
    pulse = threading.Thread(target=shift.keep_alive, args=(lambda: warmth(models, lanes),), daemon=True)
    pulse.start()
    failures: list[str] = []
    threads = [
        threading.Thread(target=_live, args=(database, lane, shift, settings, orders.drain, failures), daemon=True)
        for lane in lanes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shift.close()
    pulse.join(timeout=5)
    for failure in failures:
        print(failure, file=sys.stderr)
    try:
        retire(database, [worker_id])
    except TransientError as error:
        log.warning("%s", error)
    return 1 if failures else 0


def _live(
    database: Database, lane: Lane, shift: Shift, settings: Settings, until_empty: bool, failures: list[str]
) -> None:
    """One lane's life: drain, rest, drain. What nobody foresaw ends the process; its parent starts another."""
    pause_s = 0.5
    try:
        while not shift.is_stopping():
            try:
                drain(database, lane, shift)
                pause_s = 0.5
            except TransientError as error:
                log.warning("lane %d: %s; trying again in %.1f s", lane.number, error, pause_s)
                shift.rest(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            if until_empty:
                return
            shift.rest(settings.poll_s * random.uniform(0.5, 1.5))  # so that a fleet does not ask all at once
    except BaseException:
        failures.append(traceback.format_exc())
        shift.stop()


def _stop_with_parent(shift: Shift) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    shift.stop()


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)  # daemon threads may sit in a model call or a read; nothing of theirs is worth a wait
