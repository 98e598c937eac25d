"""Where the seconds of a job went: timings summed by phase, decoder step or lane; and its decoder calls by step number
and by how many cached positions they attended to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from jobs.choices import By
from jobs.outcome import STAGE
from jobs.store.schema.current_sums import current
from jobs.store.schema.rollup_tables import PastLengthSums, PhaseSums, RecordedBatch, StepSums

PHASES, STEPS = current(PhaseSums), current(StepSums)
# For each grouping: its rollup, the column of its seconds, and the column that it is grouped by.
SOURCES: Mapping[By, tuple[Any, ...]] = {
    By.PHASE: (PHASES, PHASES.seconds, PHASES.phase),
    By.STEP: (STEPS, STEPS.seconds, STEPS.step),
    By.LANE: (RecordedBatch, RecordedBatch.busy_s, RecordedBatch.worker_id, RecordedBatch.lane),
}


@dataclass(frozen=True, slots=True)
class StepSummary:
    """The model calls (or other phases of batches) of one group. Lanes run concurrently, so their seconds add up to
    more than the elapsed time."""

    group: str  # a phase, a step number, or worker/lane
    calls: int
    rows: int
    tokens: int  # positions computed
    seconds: float
    share: float  # of all seconds in the summary

    @property
    def is_stage(self) -> bool:
        """Whether it is a stage of a split model, whose seconds are in other phases too."""
        return self.group.startswith(STAGE)

    @property
    def mean_ms(self) -> float:
        return 1000 * self.seconds / self.calls if self.calls else 0.0

    @property
    def mean_rows(self) -> float:
        return self.rows / self.calls if self.calls else 0.0


def summarize_steps(connection: Connection, job_id: int, by: By) -> list[StepSummary]:
    """One summary per group; empty for a job without timings. Reads rollups: of a job with a million model calls, some
    ten rows by phase, some hundred by step, and by lane one row per batch."""
    rollup, seconds, *keys = SOURCES[by]
    sums = [func.sum(column) for column in (rollup.calls, rollup.rows, rollup.tokens, seconds)]
    statement = select(*sums, *keys).where(rollup.job_id == job_id, rollup.calls > 0).group_by(*keys)
    statement = statement.order_by(*((sums[3].desc(),) if by is By.PHASE else ()), *keys)
    found = connection.execute(statement).all()
    # The seconds of a stage of a split model are in its calls' own phases too.
    total = sum(float(row[3]) for row in found if not str(row[4]).startswith(STAGE)) or 1.0
    return [
        StepSummary(
            group="/".join(str(part) for part in row[4:]),
            calls=int(row[0]),
            rows=int(row[1]),
            tokens=int(row[2]),
            seconds=float(row[3]),
            share=float(row[3]) / total,
        )
        for row in found
    ]


MOST_STEPS = 2000  # a longer sequence than models have positions for


@dataclass(frozen=True, slots=True)
class DecoderCalls:
    """The calls with one step number, or with one range of past lengths."""

    key: int  # step number from 0; or lowest past length of the range
    calls: int
    rows: int  # summed over the calls
    seconds: float

    @property
    def mean_ms(self) -> float:
        return 1000 * self.seconds / self.calls

    @property
    def mean_rows(self) -> float:
        return self.rows / self.calls


def calls_by_step(connection: Connection, job_id: int) -> list[DecoderCalls]:
    """The `decode` calls by step number; empty for a job whose task decodes nothing."""
    sums = STEPS
    rows = connection.execute(
        select(sums.step, sums.calls, sums.rows, sums.seconds)
        .where(sums.job_id == job_id, sums.phase == "decode", sums.calls > 0)
        .order_by(sums.step)
        .limit(MOST_STEPS)
    )
    return [DecoderCalls(*row) for row in rows]


def calls_by_past_length(connection: Connection, job_id: int) -> list[DecoderCalls]:
    """The `decode` calls that were timed one by one, by past length, in ranges of `LENGTHS_PER_ROW`."""
    sums = current(PastLengthSums)
    rows = connection.execute(
        select(sums.past_length, sums.calls, sums.rows, sums.seconds)
        .where(sums.job_id == job_id, sums.calls > 0)
        .order_by(sums.past_length)
        .limit(MOST_STEPS)
    )
    return [DecoderCalls(*row) for row in rows]
