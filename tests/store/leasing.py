"""Lease and record shards in a test, and read the counters, events and contradictions in the store."""

from sqlalchemy import select, text

from jobs.answers import Answers
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.queue.record import record
from jobs.store.queue.work import Work
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema import tables
from tests.rows import translated

LEASE_S = 60.0


def take(database: Database, *, worker_id: int = 1, lease_s: float = LEASE_S, first_job: int | None = None) -> Work:
    work = leases.lease(database, worker_id, 0, lease_s, first_job=first_job)
    assert work is not None
    return work


def write(database: Database, work: Work, index: int = 0, *, lease_s: float = LEASE_S, **changes: object) -> None:
    """`changes`: fields of the `Answers` that are recorded."""
    answers = Answers(**{"outcomes": [translated() for _ in work.batches[index]], **changes})  # type: ignore[arg-type]
    record(database, work, index, answers, lease_s=lease_s)


def counts(database: Database, job_id: int) -> tables.JobCounts:
    with database.reading() as connection:
        return connection.execute(
            text("SELECT * FROM current_job_counts WHERE job_id = :job_id"), {"job_id": job_id}
        ).one()


def value(database: Database, column: object, *where: object) -> object:
    with database.reading() as connection:
        return connection.execute(select(column).where(*where)).scalar()  # type: ignore[call-overload]


def contradictory(database: Database, job_id: int) -> list[str]:
    with database.reading() as connection:
        return find_contradictions(connection, job_id)


def events(database: Database) -> list[str]:
    with database.reading() as connection:
        return list(connection.execute(select(tables.ShardEvent.event).order_by(tables.ShardEvent.id)).scalars())
