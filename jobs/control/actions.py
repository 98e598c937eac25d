"""An action on a job: logged when it is asked for, performed, and its outcome logged."""

import enum
import getpass
import socket
from dataclasses import dataclass

from jobs.errors import KvjobsError
from jobs.formatting import counted
from jobs.store import jobs
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.store.schema.states import JobState


class Action(enum.StrEnum):
    """What can be done to a job."""

    PAUSE = "pause"  # lease no more shards of it
    RESUME = "resume"  # the reverse
    CANCEL = "cancel"  # end it; the results that there are stay
    RETRY = "retry"  # reopen its documents without a result
    PRIORITY = "priority"  # change its place in the queue


@dataclass(frozen=True, slots=True)
class Performed:
    """An action, and the job before and after."""

    action: Action
    before: JobSummary
    after: JobSummary
    documents: int  # cancelled, or reopened
    number: int  # of its row in the log


def actions_of(job: JobSummary) -> tuple[Action, ...]:
    """The actions that the state of a job allows."""
    if job.has_ended:
        is_retried = job.state != JobState.FAILED and job.unsuccessful > job.rejected
        return (Action.RETRY,) if is_retried else ()
    if job.cancel_requested_at:
        return (Action.RETRY,)
    return (Action.RESUME if job.paused else Action.PAUSE, Action.PRIORITY, Action.CANCEL)


def perform(
    database: Database,
    reference: str,
    action: Action,
    actor: str,
    *,
    reason: str | None = None,
    priority: int | None = None,
) -> Performed:
    """Do it. Raises NotFoundError for a job that does not exist, SpecError where its state does not allow the action;
    both are logged as its outcome."""
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
    """How many documents it concerned."""
    match action:
        case Action.PAUSE:
            jobs.pause(database, job_id, reason)
        case Action.RESUME:
            jobs.resume(database, job_id)
        case Action.CANCEL:
            return jobs.cancel(database, job_id)
        case Action.RETRY:
            return jobs.retry(database, job_id)
        case Action.PRIORITY:
            assert priority is not None, "the priority to set"
            jobs.set_priority(database, job_id, priority)
    return 0
