"""What people ask of a worker, on the command line and on the dashboard: to pause, to go on, to drain."""

import enum

from jobs.errors import NotFoundError, SpecError
from jobs.store.database import Database
from jobs.store.report.worker_list import WorkerSummary, find_worker
from jobs.store.schema.states import WorkerRequest
from jobs.store.worker_registry import ask


class WorkerAction(enum.StrEnum):
    """What can be asked of a worker."""

    PAUSE = "pause"  # lease no shard until it is resumed
    RESUME = "resume"  # the reverse
    DRAIN = "drain"  # finish the shards in hand, then exit


REQUESTS = {
    WorkerAction.PAUSE: WorkerRequest.PAUSE,
    WorkerAction.RESUME: WorkerRequest.WORK,
    WorkerAction.DRAIN: WorkerRequest.DRAIN,
}


def actions_of_worker(worker: WorkerSummary) -> tuple[WorkerAction, ...]:
    """The actions that the state of a worker allows. One that drains cannot be held up: some lanes may have ended."""
    if worker.has_ended or worker.asked_to == WorkerRequest.DRAIN:
        return ()
    is_paused = worker.asked_to == WorkerRequest.PAUSE
    return (WorkerAction.RESUME if is_paused else WorkerAction.PAUSE, WorkerAction.DRAIN)


def perform_on_worker(
    database: Database, worker_id: int, action: WorkerAction, actor: str, silence_s: float
) -> WorkerSummary:
    """Ask it; the worker after that. Raises NotFoundError for one that does not exist, SpecError where its state does
    not allow the action. What is asked already is asked by the first who did."""
    with database.reading() as connection:
        worker = find_worker(connection, worker_id, silence_s)
    if worker is None:
        raise NotFoundError(f"there is no worker {worker_id}; kvjobs worker ls lists the workers")
    if REQUESTS[action] == (worker.asked_to or WorkerRequest.WORK):
        return worker
    if action not in actions_of_worker(worker):
        raise SpecError(f"worker {worker_id} is {worker.state}, so it cannot be asked to {action.value}")
    ask(database, worker_id, REQUESTS[action], actor)
    with database.reading() as connection:
        after = find_worker(connection, worker_id, silence_s)
    return after or worker


def worker_message(worker: WorkerSummary, action: WorkerAction, heartbeat_s: float) -> str:
    """What follows from an action, in a sentence."""
    name = f"Worker {worker.worker_id} on {worker.host}"
    soon = f"after its next heartbeat, in {heartbeat_s:g} s at most,"
    match action:
        case WorkerAction.PAUSE:
            return f"{name} is paused: {soon} {PAUSING}. To resume it: kvjobs worker resume {worker.worker_id}"
        case WorkerAction.RESUME:
            return f"{name} is resumed: {soon} it takes shards again."
        case WorkerAction.DRAIN:
            return f"{name} drains: {soon} {DRAINING}."


PAUSING = "it finishes its batches, gives its shards back, takes no more, and keeps its models loaded"
DRAINING = "it finishes the shards in hand, takes no more, and ends"
