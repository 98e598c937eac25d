"""What the whole installation does now: the jobs that are open, its speed, the oldest shard that waits."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, column, func, select, table

from jobs.store.queue.leasable import IS_READY, leasable
from jobs.store.schema.clock import UtcDateTime, db_time
from jobs.store.schema.tables import Job, Shard

V_THROUGHPUT = table(
    "v_throughput",
    column("minute", UtcDateTime()),
    *(column(name) for name in ("job_id", "documents", "source_tokens", "target_tokens")),
)


@dataclass(frozen=True, slots=True)
class MinuteOfWork:
    """What was recorded in one minute, by all workers together."""

    minute: datetime
    documents: int
    source_tokens: int
    target_tokens: int


@dataclass(frozen=True, slots=True)
class WaitingShard:
    """The shard that has been ready for the longest time."""

    shard_id: int
    job_id: int
    since: datetime
    waits_s: float


def work_by_minute(connection: Connection, minutes: int, job_id: int | None = None) -> list[MinuteOfWork]:
    """The last `minutes`, the current one included, oldest first; a minute without results has zeros."""
    now = connection.execute(select(db_time())).scalar_one()
    first = now.replace(second=0, microsecond=0) - timedelta(minutes=minutes - 1)
    sums = [func.sum(V_THROUGHPUT.c[name]) for name in ("documents", "source_tokens", "target_tokens")]
    # On SQLite a minute is the text `YYYY-MM-DD HH:MM`, which is less than the same minute with its seconds.
    since = V_THROUGHPUT.c.minute > first - timedelta(seconds=1)
    statement = select(V_THROUGHPUT.c.minute, *sums).where(since).group_by(V_THROUGHPUT.c.minute)
    if job_id is not None:
        statement = statement.where(V_THROUGHPUT.c.job_id == job_id)
    found = {row[0]: row[1:] for row in connection.execute(statement)}
    every = (first + timedelta(minutes=number) for number in range(minutes))
    return [MinuteOfWork(at, *map(int, found.get(at, (0, 0, 0)))) for at in every]


def oldest_waiting_shard(connection: Connection) -> WaitingShard | None:
    """Of the shards that may be leased: the first of the oldest job."""
    now = db_time()
    row = connection.execute(
        select(Shard.id, Shard.job_id, Shard.available_at, now.label("now"))
        .join(Job, Job.id == Shard.job_id)
        .where(leasable(), IS_READY)
        .order_by(Shard.job_id, Shard.id)
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    return WaitingShard(row.id, row.job_id, row.available_at, max(0.0, (row.now - row.available_at).total_seconds()))
