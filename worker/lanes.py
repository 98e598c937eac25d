"""The child process: holds the sessions, and runs N lanes (threads) and a heartbeat until it is told to stop.

Started by `worker.supervisor` as a fresh process, never as a fork: a session's threads and a GPU's context do not
survive one. Its standard input is a pipe that its parent holds open: each byte in it wakes the lanes that rest, and
when the parent ends, however that happens, the pipe ends too, and the child finishes the batch in hand and goes. What
it writes to its standard output: see `worker.process.child`.
"""

import contextlib
import faulthandler
import logging
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial

from jobs.dispatch.health import Health
from jobs.dispatch.orders import Orders
from jobs.dispatch.outage import Outage
from jobs.errors import KvjobsError, StoreError, TransientError, ValueRefused
from jobs.process import ProcessId, available_cores
from jobs.queues import CPU, Queues
from jobs.store.database import Database
from jobs.store.worker_registry import register, retire
from worker.drain import drain
from worker.engine.runtime.device import lanes_of, provider_name, providers
from worker.isolation.sandbox import Sandbox
from worker.lane import Lane, warmth
from worker.process.child import ENTERED, EXIT_REFUSED
from worker.process.connect import connect_with_retry
from worker.process.health import serve_health
from worker.process.lease_keeper import LeaseKeeper
from worker.process.memory_limits import limit_to_machine, set_oom_score
from worker.process.wakeup import Wakeup
from worker.warm import WarmModels

log = logging.getLogger(__name__)

LONGEST_PAUSE_S = 10.0
LOOK_EVERY_S = 5.0  # at least, where a broker wakes the lanes


def main() -> int:
    """Run the lanes as ordered; the exit code."""
    orders = Orders.from_argument(sys.argv[1])
    logging.basicConfig(level=orders.settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    faulthandler.enable(all_threads=False)  # where it was when it died, on standard error
    set_oom_score(500)  # killed before the database and before its parent
    if orders.device == CPU:
        limit_to_machine()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the parent decides
    num_lanes = lanes_of(orders.device, orders.settings.lanes)
    speak = _speaker()
    calls = Calls(Wakeup(num_lanes, tell=lambda rung: speak(b"%d" % rung)))
    signal.signal(signal.SIGTERM, lambda *_: calls.end())
    threading.Thread(target=calls.listen, daemon=True).start()
    try:
        database = connect_with_retry(orders.settings, calls.pause, has_run=orders.has_run)
        if database is None:
            return 0
        return _run(database, orders, num_lanes, calls, speak)
    except KvjobsError as error:
        print(f"kvjobs worker: {error}", file=sys.stderr)
        return EXIT_REFUSED


class Calls:
    """What the parent has to say: wake up, or go."""

    def __init__(self, bell: Wakeup) -> None:
        self.bell = bell
        self._ended = threading.Event()
        self._shift: LeaseKeeper | None = None

    def listen(self) -> None:
        """Until the pipe ends."""
        while read := os.read(sys.stdin.fileno(), 4096):
            self.bell.ring(len(read))
        self.end()

    def end(self) -> None:
        self._ended.set()
        if self._shift:
            self._shift.stop()

    def pause(self, seconds: float) -> bool:
        """Wait before the shift has begun; whether to go."""
        return self._ended.wait(seconds)

    def begin(self, shift: LeaseKeeper) -> None:
        """Whoever calls from now on calls this shift."""
        self._shift = shift
        if self._ended.is_set():
            shift.stop()


def _speaker() -> Callable[[bytes], None]:
    """Tells the parent a line. What a library prints must not be taken for one: it goes to standard error."""
    pipe = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def speak(line: bytes) -> None:
        with contextlib.suppress(OSError):  # the parent has ended; its other pipe says so too
            os.write(pipe, line + b"\n")

    return speak


def _run(database: Database, orders: Orders, num_lanes: int, calls: Calls, speak: Callable[[bytes], None]) -> int:
    settings = orders.settings
    # One thread a lane beat one session with as many threads by 1.4 to 1 on two cores: the lanes never wait for
    # each other at the end of a product.
    threads = max(1, available_cores() // num_lanes)
    models = WarmModels(settings.models_dir, threads, providers(orders.device))
    lanes = [Lane(number, models) for number in range(num_lanes)]
    queues = Queues.parse(settings.queues, orders.device)

    def enter() -> int:
        entered = register(
            database,
            device=orders.device,
            provider=provider_name(orders.device),
            lanes=num_lanes,
            queues=str(queues),
            node=orders.node,
        )
        speak(ENTERED + b"%d" % entered)
        return entered

    worker_id = _patiently(enter, orders, calls)
    if worker_id is None:
        return 0
    shift = LeaseKeeper(
        database,
        worker_id,
        lease_s=settings.lease_s,
        heartbeat_s=settings.heartbeat_s,
        hang_s=settings.hang_s,
        bell=calls.bell,
        enter=enter,
    )
    calls.begin(shift)
    pulse = threading.Thread(target=shift.keep_alive, args=(lambda: warmth(models, lanes),), daemon=True)
    pulse.start()
    threading.Thread(target=shift.watch.run, daemon=True).start()
    failures: list[str] = []
    threads_of_lanes = [
        threading.Thread(target=_live, args=(database, lane, shift, orders, queues, failures), daemon=True)
        for lane in lanes
    ]
    for thread in threads_of_lanes:
        thread.start()
    with serve_health(settings, lambda: _health(shift, threads_of_lanes)):
        for thread in threads_of_lanes:
            thread.join()
    shift.close()
    pulse.join(timeout=5)
    for failure in failures:
        print(failure, file=sys.stderr)
    try:
        retire(database, [shift.worker_id])
    except StoreError as error:
        log.warning("%s", error)
    return 1 if failures else 0


def _health(shift: LeaseKeeper, lanes: list[threading.Thread]) -> Health:
    me, silent_s = ProcessId.mine(), time.monotonic() - shift.heard_at
    return Health(
        worker_id=shift.worker_id,
        host=socket.gethostname(),
        pid=me.pid,
        machine=me.machine,
        lives=all(lane.is_alive() for lane in lanes) and not shift.watch.is_stuck() and silent_s <= shift.lease_s,
        silent_s=silent_s,
    )


def _patiently(enter: Callable[[], int], orders: Orders, calls: Calls) -> int | None:
    """Our number among the workers, as soon as the database takes it; None if we are to go. Raises StoreError for what
    waiting does not mend, as `connect_with_retry` does."""
    outage = Outage()
    while True:
        try:
            return enter()
        except StoreError as error:
            if not (orders.has_run or isinstance(error, TransientError)):
                raise
            outage.met(error)
        if calls.pause(1.0):
            return None


def _live(
    database: Database, lane: Lane, shift: LeaseKeeper, orders: Orders, queues: Queues, failures: list[str]
) -> None:
    """One lane's life: drain, rest, drain. What nobody foresaw ends the process; its parent starts another."""
    pause_s = 0.5
    look_every_s = _look_every_s(orders)
    try:
        while not shift.is_stopping():
            heard = shift.bell.rung
            try:
                drain(database, lane, shift, queues, orders.first_job, partial(Sandbox, orders))
                pause_s = 0.5
                shift.outage.over()
            except ValueRefused:
                raise
            except StoreError as error:
                shift.outage.met(error)
                shift.bell.pause(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            if orders.drain:
                return
            shift.bell.rest(look_every_s * random.uniform(0.5, 1.5), heard)  # a fleet should not ask all at once
    except BaseException:
        failures.append(traceback.format_exc())
        shift.stop()


def _look_every_s(orders: Orders) -> float:
    """Where hints wake the lanes, they look by themselves all the same, for when the broker is away."""
    poll_s = orders.settings.poll_s
    return poll_s if orders.node is None else max(poll_s, LOOK_EVERY_S)


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)  # daemon threads may sit in a model call or a read; nothing of theirs is worth a wait
