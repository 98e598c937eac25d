"""What was recorded minute by minute: of one job over its whole life, and by all workers in the last hour.

The database adds up the minutes of a job to intervals of equal width, so a job of a month, which has 40,000 minutes, is
read as few rows as one of an hour.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Connection, Label, cast, column, extract, func, select, table

from jobs.store.schema.clock import UtcDateTime, db_time
from jobs.store.schema.current_sums import current
from jobs.store.schema.rollup_tables import MinuteSums

MOST_INTERVALS = 180  # more are hard to tell apart on a page
WIDTHS_MIN = (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440, 10080)
V_THROUGHPUT = table(
    "v_throughput",
    column("minute", UtcDateTime()),
    *(column(name) for name in ("documents", "source_tokens", "target_tokens")),
)


@dataclass(frozen=True, slots=True)
class Interval:
    """What was recorded of a job from `start` on, for the width of an interval."""

    start: datetime
    documents: int  # with a result
    failed: int  # without
    source_tokens: int
    target_tokens: int
    busy_s: float  # of the batches that ended in it, also the seconds before it; 0 where timings are off
    model_s: float  # of these in model calls


@dataclass(frozen=True, slots=True)
class Intervals:
    """A job from the first minute of which something was recorded to the last, oldest first. There are no gaps: where
    nothing was recorded, all is 0. Empty where there is no such minute."""

    width_min: int
    all: Sequence[Interval]

    @property
    def width_s(self) -> int:
        return 60 * self.width_min


@dataclass(frozen=True, slots=True)
class MinuteOfWork:
    """What was recorded in one minute, by all workers together."""

    minute: datetime
    documents: int
    source_tokens: int
    target_tokens: int


def intervals_of_job(connection: Connection, job_id: int, at_least_s: float = 0.0) -> Intervals:
    """The whole job, in at most `MOST_INTERVALS` intervals of `at_least_s` seconds and a minute at least (after
    three years, more of a week)."""
    sums = current(MinuteSums)
    ends = [select(end(sums.minute)).where(sums.job_id == job_id) for end in (func.min, func.max)]
    first, last = (connection.execute(end).scalar() for end in ends)  # each is found at an end of the index
    if first is None or last is None:
        return Intervals(1, [])
    total = (last - first) // timedelta(minutes=1) + 1
    width = width_for(total, at_least_s)
    number = _number(connection, first, width)
    columns = (sums.documents, sums.failed, sums.source_tokens, sums.target_tokens, sums.busy_s, sums.model_s)
    added = select(number, *map(func.sum, columns)).where(sums.job_id == job_id).group_by(number)
    found = {row[0]: (*map(int, row[1:5]), *row[5:]) for row in connection.execute(added)}
    starts = (first + timedelta(minutes=width * at) for at in range(math.ceil(total / width)))
    nothing = (0, 0, 0, 0, 0.0, 0.0)
    return Intervals(width, [Interval(start, *found.get(at, nothing)) for at, start in enumerate(starts)])


def work_by_minute(connection: Connection, minutes: int) -> list[MinuteOfWork]:
    """The last `minutes`, the current one included, oldest first; a minute without results has zeros."""
    now = connection.execute(select(db_time())).scalar_one()
    first = now.replace(second=0, microsecond=0) - timedelta(minutes=minutes - 1)
    sums = [func.sum(V_THROUGHPUT.c[name]) for name in ("documents", "source_tokens", "target_tokens")]
    # On SQLite a minute is the text `YYYY-MM-DD HH:MM`, which is less than the same minute with its seconds.
    since = V_THROUGHPUT.c.minute > first - timedelta(seconds=1)
    statement = select(V_THROUGHPUT.c.minute, *sums).where(since).group_by(V_THROUGHPUT.c.minute)
    found = {row[0]: row[1:] for row in connection.execute(statement)}
    every = (first + timedelta(minutes=number) for number in range(minutes))
    return [MinuteOfWork(at, *map(int, found.get(at, (0, 0, 0)))) for at in every]


def width_for(minutes: int, at_least_s: float) -> int:
    """The width in minutes of intervals, so that `minutes` have no more of them than `MOST_INTERVALS`."""
    wide_enough = (width for width in WIDTHS_MIN if minutes <= width * MOST_INTERVALS and at_least_s <= 60 * width)
    return next(wide_enough, WIDTHS_MIN[-1])


def _number(connection: Connection, first: datetime, width_min: int) -> Label[int]:
    """SQL for the number of the interval that a minute belongs to, from 0."""
    minute = current(MinuteSums).minute
    is_sqlite = connection.dialect.name == "sqlite"
    seconds = cast(func.strftime("%s", minute) if is_sqlite else extract("epoch", minute), BigInteger())
    return ((seconds - int(first.timestamp())) // (60 * width_min)).label("number")
