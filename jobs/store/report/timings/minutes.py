"""What was recorded of one job, minute by minute, from a rollup."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from jobs.store.schema.rollup_tables import MinuteSums

MOST_MINUTES = 5000  # three days of work; of a longer job the newest


@dataclass(frozen=True, slots=True)
class JobMinute:
    """The documents of a job that ended in one minute."""

    minute: datetime
    documents: int  # with a result
    failed: int  # without
    source_tokens: int
    target_tokens: int


def minutes_of_job(connection: Connection, job_id: int) -> list[JobMinute]:
    """The minutes in which documents ended, oldest first."""
    sums = MinuteSums
    rows = connection.execute(
        select(sums.minute, sums.documents, sums.failed, sums.source_tokens, sums.target_tokens)
        .where(sums.job_id == job_id)
        .order_by(sums.minute.desc())
        .limit(MOST_MINUTES)
    )
    return [JobMinute(*row) for row in rows][::-1]
