"""The log of what people do to jobs: a row when an action is asked for, completed with its outcome."""

from sqlalchemy import insert, update

from jobs.store.database import Database
from jobs.store.schema.action_table import JobAction
from jobs.store.schema.clock import db_time

LONGEST_DETAIL = 1000  # characters


def log_action(database: Database, job_id: int, action: str, actor: str, detail: str | None) -> int:
    """Log what is asked for; the number of the row, for `log_outcome`."""
    row = {"job_id": job_id, "action": action, "actor": actor, "detail": detail and detail[:LONGEST_DETAIL]}
    with database.writing() as connection:
        statement = insert(JobAction).values(**row, asked_at=db_time()).returning(JobAction.id)
        return int(connection.execute(statement).scalar_one())


def log_outcome(database: Database, number: int, outcome: str) -> None:
    """Complete the row of an action with what came of it."""
    with database.writing() as connection:
        connection.execute(update(JobAction).where(JobAction.id == number).values(outcome=outcome, ended_at=db_time()))
