"""Draining workers: by their numbers, by their hosts, or all of them; and who of them is left."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.control.actions import WorkerAction, checked_worker, perform_on_worker
from jobs.errors import NotFoundError, nearest
from jobs.number_ranges import EVERY_ID
from jobs.store.database import Database
from jobs.store.report.worker_list import WorkerSummary, find_workers, list_workers
from jobs.store.schema.states import WorkerRequest
from jobs.store.worker_registry import ask_all_to_drain


@dataclass(frozen=True, slots=True)
class Draining:
    """Workers that were asked to drain, as they were then."""

    workers: tuple[WorkerSummary, ...]
    silence_s: float  # a worker without a heartbeat for so long is stale

    def left(self, database: Database) -> list[WorkerSummary]:
        """Those that have not ended, and processes that replaced one of them, which inherit the request."""
        ids = {worker.worker_id for worker in self.workers}
        asked_at: set[datetime | None] = {worker.asked_at for worker in self.workers}
        with database.reading() as connection:
            running = list_workers(connection, self.silence_s)
        return [
            worker
            for worker in running
            if not worker.has_ended
            and (worker.worker_id in ids or (worker.asked_to == WorkerRequest.DRAIN and worker.asked_at in asked_at))
        ]

    def now(self, database: Database) -> list[WorkerSummary]:
        """The same workers as they are now, newest first."""
        with database.reading() as connection:
            return find_workers(connection, [worker.worker_id for worker in self.workers], self.silence_s)


def drain_workers(database: Database, targets: Sequence[str], actor: str, silence_s: float) -> Draining:
    """Ask workers to drain; `targets`: numbers of workers and names of hosts, none: all workers. One that starts
    afterwards is not asked. Nobody is asked before each target is checked.

    Raises NotFoundError for a worker or a host that is not there, SpecError for a worker that has ended.
    """
    numbers = [int(EVERY_ID.parse(target)) for target in targets if _is_number(target)]
    hosts = {target.lower() for target in targets if not _is_number(target)}
    with database.reading() as connection:
        running = [worker for worker in list_workers(connection, silence_s) if not worker.has_ended]
        for number in numbers:
            checked_worker(connection, number, WorkerAction.DRAIN, silence_s)
    for target in targets:
        if not _is_number(target):
            _check_host(target, running)
    for number in numbers:
        perform_on_worker(database, number, WorkerAction.DRAIN, actor, silence_s)
    if hosts or not targets:
        ask_all_to_drain(database, actor, hosts=hosts or None, replaced_within_s=silence_s)
    with database.reading() as connection:
        running = [worker for worker in list_workers(connection, silence_s) if not worker.has_ended]
        named = find_workers(connection, numbers, silence_s)  # a worker that was drained before has ended perhaps
    chosen = {
        worker.worker_id: worker
        for worker in running
        if worker.asked_to == WorkerRequest.DRAIN and (not targets or worker.host.lower() in hosts)
    } | {worker.worker_id: worker for worker in named}
    return Draining(tuple(chosen[number] for number in sorted(chosen, reverse=True)), silence_s)


def _is_number(target: str) -> bool:
    return target.isascii() and target.isdecimal()


def _check_host(name: str, running: Sequence[WorkerSummary]) -> None:
    """Raise NotFoundError for a host on which no worker runs."""
    hosts = sorted({worker.host for worker in running})
    if name.lower() in (host.lower() for host in hosts):
        return
    near = nearest(name, hosts)
    known = f"did you mean {near}?" if near else "kvjobs worker ls lists the workers"
    raise NotFoundError(f"no worker runs on a host named {name!r}; {known}")
