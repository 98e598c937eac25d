"""The log of what people did to jobs."""

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped

from jobs.store.schema.column import column
from jobs.store.schema.declarative import Base, BigId


class JobAction(Base):
    """What somebody did to a job: paused, resumed, cancelled, retried it, or changed its priority. It is kept when the
    job is pruned."""

    __tablename__ = "job_actions"

    id: Mapped[int] = column("number of the row, in the order of writing", BigId, unit="id", primary_key=True)
    job_id: Mapped[int] = column("the job", unit="id")
    action: Mapped[str] = column("`pause`, `resume`, `cancel`, `retry` or `priority`")
    actor: Mapped[str] = column("who: user and host of the command line, or address of the visitor of the dashboard")
    detail: Mapped[str | None] = column("what was given with it, such as the reason or the new priority")
    asked_at: Mapped[datetime] = column("when it was asked for")
    outcome: Mapped[str | None] = column("what changed, or the error; null where the process died meanwhile")
    ended_at: Mapped[datetime | None] = column("when it had been done")

    __table_args__ = (Index(None, "job_id", "id"),)
