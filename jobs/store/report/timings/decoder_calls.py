"""The decoder calls of a job, summed by step number and by how many cached positions they attended to."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from jobs.store.schema.rollup_tables import PastLengthSums, StepSums

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
    sums = StepSums
    rows = connection.execute(
        select(sums.step, sums.calls, sums.rows, sums.seconds)
        .where(sums.job_id == job_id, sums.phase == "decode", sums.calls > 0)
        .order_by(sums.step)
        .limit(MOST_STEPS)
    )
    return [DecoderCalls(*row) for row in rows]


def calls_by_past_length(connection: Connection, job_id: int) -> list[DecoderCalls]:
    """The `decode` calls that were timed one by one, by past length, in ranges of `LENGTHS_PER_ROW`."""
    sums = PastLengthSums
    rows = connection.execute(
        select(sums.past_length, sums.calls, sums.rows, sums.seconds)
        .where(sums.job_id == job_id, sums.calls > 0)
        .order_by(sums.past_length)
        .limit(MOST_STEPS)
    )
    return [DecoderCalls(*row) for row in rows]
