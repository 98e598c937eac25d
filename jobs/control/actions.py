"""What people do to a job: an action is logged when it is asked for, performed, and its outcome logged. And what they
ask of a worker, on the command line and on the dashboard: to pause, to go on, to drain."""

import enum
import getpass
import socket
from dataclasses import dataclass

from sqlalchemy import Connection

from jobs.errors import KvjobsError, NotFoundError, SpecError
from jobs.store import jobs
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.store.report.worker_list import WorkerSummary, find_worker
from jobs.store.schema.states import JobState, WorkerRequest
from jobs.store.worker_registry import ask
from jobs.text.formatting import counted


class Action(enum.StrEnum):
    """The actions on a job."""

    PAUSE = "pause"  # lease no more shards of it
    RESUME = "resume"  # the reverse
    CLOSE = "close"  # an open job takes no more documents, and ends with the last one
    CANCEL = "cancel"  # end it; the results that there are stay
    RETRY = "retry"  # reopen its documents without a result
    PRIORITY = "priority"  # decides which job's shards are leased first


@dataclass(frozen=True, slots=True)
class Performed:
    """An action, and the job before and after."""

    action: Action
    before: JobSummary
    after: JobSummary
    documents: int  # how many documents were cancelled or reopened
    number: int  # the number of the action's row in the log


def actions_of(job: JobSummary) -> tuple[Action, ...]:
    """The actions that the state of a job allows."""
    if job.has_ended:
        is_retried = job.state != JobState.FAILED and job.unsuccessful > job.rejected
        return (Action.RETRY,) if is_retried else ()
    if job.cancel_requested_at:
        return (Action.RETRY,)
    closing = (Action.CLOSE,) if job.is_open else ()
    return (Action.RESUME if job.paused else Action.PAUSE, Action.PRIORITY, *closing, Action.CANCEL)


def perform(
    database: Database,
    reference: str,
    action: Action,
    actor: str,
    *,
    reason: str | None = None,
    priority: int | None = None,
) -> Performed:
    """Perform an action on a job, and log it. Raises NotFoundError for a job that does not exist, SpecError where its
    state does not allow the action; a refusal is logged as the outcome."""
    with database.reading() as connection:
        before = find_job(connection, reference)
    detail = str(priority) if action is Action.PRIORITY else reason
    number = jobs.log_action(database, before.job_id, action.value, actor, detail)
    try:
        documents = _perform(database, before.job_id, action, reason, priority)
    except KvjobsError as error:
        jobs.log_outcome(database, number, f"refused: {error}")
        raise
    jobs.log_outcome(database, number, counted(documents, "document") if action in COUNTING else "done")
    with database.reading() as connection:
        return Performed(action, before, find_job(connection, str(before.job_id)), documents, number)


COUNTING = (Action.CANCEL, Action.RETRY)


def this_user() -> str:
    """The person at this command line: user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in a container
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _perform(database: Database, job_id: int, action: Action, reason: str | None, priority: int | None) -> int:
    """How many documents the action changed."""
    match action:
        case Action.PAUSE:
            jobs.pause(database, job_id, reason)
        case Action.RESUME:
            jobs.resume(database, job_id)
        case Action.CANCEL:
            return jobs.cancel(database, job_id)
        case Action.RETRY:
            return jobs.retry(database, job_id)
        case Action.CLOSE:
            jobs.close(database, job_id)
        case Action.PRIORITY:
            assert priority is not None, "the priority to set"
            jobs.set_priority(database, job_id, priority)
    return 0


class WorkerAction(enum.StrEnum):
    """The actions that a worker can be asked to do."""

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
    """Ask a worker to do an action; returns the worker afterwards. Raises NotFoundError for a worker that does not
    exist, SpecError where its state does not allow the action. A request that was made already stays as it is."""
    with database.reading() as connection:
        worker = checked_worker(connection, worker_id, action, silence_s)
    if REQUESTS[action] == (worker.asked_to or WorkerRequest.WORK):
        return worker
    ask(database, worker_id, REQUESTS[action], actor)
    with database.reading() as connection:
        after = find_worker(connection, worker_id, silence_s)
    return after or worker


def checked_worker(connection: Connection, worker_id: int, action: WorkerAction, silence_s: float) -> WorkerSummary:
    """The worker that is to be asked; raises as `perform_on_worker`."""
    worker = find_worker(connection, worker_id, silence_s)
    if worker is None:
        raise NotFoundError(f"there is no worker {worker_id}; kvjobs worker ls lists the workers")
    is_asked = REQUESTS[action] == (worker.asked_to or WorkerRequest.WORK)
    if not is_asked and action not in actions_of_worker(worker):
        raise SpecError(f"worker {worker_id} is {worker.state}, so it cannot be asked to {action.value}")
    return worker


def worker_message(worker: WorkerSummary, action: WorkerAction, heartbeat_s: float) -> str:
    """A sentence that says what the worker will do after an action."""
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
