"""The log of what people did to a job: who paused, resumed, cancelled or retried it, and what came of it."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from jobs.store.schema.lasting_tables import JobAction

MOST = 100


@dataclass(frozen=True, slots=True)
class LoggedAction:
    """A row of the log; `outcome` is None where the process died before it was known."""

    action: str
    actor: str
    detail: str | None
    asked_at: datetime
    outcome: str | None
    ended_at: datetime | None


_COLUMNS = [getattr(JobAction, name) for name in LoggedAction.__dataclass_fields__]


def find_action(connection: Connection, job_id: int, number: int) -> LoggedAction | None:
    """One action on a job; None if the job has no such."""
    found = connection.execute(
        select(*_COLUMNS).where(JobAction.job_id == job_id, JobAction.id == number)
    ).one_or_none()
    return None if found is None else LoggedAction(*found)


def find_actions(connection: Connection, numbers: Collection[int]) -> list[tuple[int, LoggedAction]]:
    """These actions, each with its job, in the order of the log."""
    found = select(JobAction.job_id, *_COLUMNS).where(JobAction.id.in_(numbers)).order_by(JobAction.id)
    return [(row[0], LoggedAction(*row[1:])) for row in connection.execute(found)]


def list_actions(connection: Connection, job_id: int) -> list[LoggedAction]:
    """The newest actions on a job, newest first."""
    newest = select(*_COLUMNS).where(JobAction.job_id == job_id).order_by(JobAction.id.desc()).limit(MOST)
    return [LoggedAction(*row) for row in connection.execute(newest)]
