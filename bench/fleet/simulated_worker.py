"""A worker whose engine computes nothing: the lane, the heartbeat, the reaper and the dispatcher are the real ones.

What it hides: it is threads of a process that it shares with other workers, so its Python runs while no other worker's
does; and it has no onnxruntime beside it that keeps the processor busy.
"""

import random
import threading
import time
from dataclasses import dataclass

from celery import Celery
from sqlalchemy import update

from bench.fleet.instant_provider import InstantProviders
from jobs.dispatch.broker import BrokerStatus
from jobs.dispatch.delta_folding import DeltaFolding
from jobs.dispatch.hints import Dispatcher
from jobs.errors import StoreError
from jobs.store.database import Database
from jobs.store.schema.tables import Worker
from jobs.store.singleton_roles import new_holder
from jobs.store.worker_registry import mark_stopped, register
from worker.child_process import worker_stats
from worker.drain import drain
from worker.lane import Lane
from worker.process.lease_keeper import LeaseKeeper
from worker.supervisor import ReaperThread

LEASE_S, HEARTBEAT_S = 60.0, 15.0  # the settings that a worker has unless told otherwise
POLL_S, POLL_WITH_BROKER_S = 1.0, 5.0
MACHINES = 100  # that the workers say they are on


@dataclass(frozen=True, slots=True)
class Load:
    """What the simulated workers do."""

    pace_s: tuple[float, float]  # the shortest and the longest time that a batch takes
    with_parent: bool  # each has the reaper, folding and dispatcher of its parent process, with their own connections
    broker: str = ""  # of the dispatcher; without one, lanes look for work five times as often


class SimulatedWorker:
    """One worker of one lane."""

    def __init__(self, url: str, number: int, load: Load, app: Celery | None) -> None:
        """Connect and register, as a worker does when it starts."""
        self._database = Database.open(url, silence_s=LEASE_S)
        worker_id = register(self._database, device="cpu", provider="CPUExecutionProvider", lanes=1)
        _move(self._database, worker_id, f"machine-{number % MACHINES}")
        with self._database.reading(), self._database.reading():
            """The lane and the heartbeat have their connections, as in a fleet that has run for a while."""
        self._providers = InstantProviders(load.pace_s)
        self._lane = Lane(0, self._providers)
        self._keeper = LeaseKeeper(self._database, worker_id, lease_s=LEASE_S, heartbeat_s=HEARTBEAT_S)
        self._look_every_s = POLL_WITH_BROKER_S if load.broker else POLL_S
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run_lane, daemon=True)]
        # Without parents one process of the fleet folds all the same.
        with_parent = load.with_parent or number == 0
        self._parent = Database.open(url, silence_s=LEASE_S) if with_parent else None
        self._with_reaper = load.with_parent
        self._app = app
        self.failures: list[str] = []

    def start(self) -> None:
        """Start its threads, the heartbeat at any time of its period, as in a fleet that has run for a while."""
        self._threads.append(threading.Thread(target=self._keep_alive, daemon=True))
        for thread in self._threads:
            thread.start()
        if self._parent is not None:
            DeltaFolding(self._parent, new_holder()).start(self._stop)
        if self._parent is not None and self._with_reaper:
            ReaperThread(self._parent, LEASE_S).start(self._stop)
            if self._app is not None:
                status = BrokerStatus(self.failures.append)
                dispatcher = Dispatcher(self._parent, self._app, new_holder(), status, silence_s=LEASE_S)
                threading.Thread(target=dispatcher.run, args=(self._stop,), daemon=True).start()

    def stop(self) -> None:
        """Ask it to end after its batch."""
        self._stop.set()
        self._keeper.stop()
        self._keeper.close()

    def join(self, seconds: float) -> None:
        """Wait for its end, and close its connections."""
        for thread in self._threads:
            thread.join(seconds)
        try:
            mark_stopped(self._database, [self._keeper.worker_id])
        except StoreError as error:
            self.failures.append(str(error))
        for database in (self._database, self._parent):
            if database is not None:
                database.close()

    def _run_lane(self) -> None:
        """As the lane of `worker.child_process`: drain, wait, drain."""
        while not self._keeper.is_stopping():
            try:
                drain(self._database, self._lane, self._keeper)
            except StoreError as error:
                self.failures.append(str(error))
                self._keeper.wakeup.sleep(0.5)
                continue
            self._keeper.wakeup.wait(self._look_every_s * random.uniform(0.5, 1.5))

    def _keep_alive(self) -> None:
        if not self._stop.wait(random.uniform(0, HEARTBEAT_S)):
            self._keeper.keep_alive(lambda: worker_stats(self._providers, [self._lane]))


def run_workers(workers: list[SimulatedWorker], until: float) -> None:
    """Run workers until this time of `time.monotonic`, then stop them and wait for their ends."""
    for worker in workers:
        worker.start()
    time.sleep(max(0.0, until - time.monotonic()))
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join(30.0)


def _move(database: Database, worker_id: int, machine: str) -> None:
    """Let a worker say that it is on another machine: else every reaper would look for its process here."""
    with database.writing() as connection:
        connection.execute(update(Worker).where(Worker.id == worker_id).values(machine=machine, host=machine))
