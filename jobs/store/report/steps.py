"""Where the seconds of a job went: timings summed by phase, decoder step or lane."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from jobs.choices import By
from jobs.store.schema.tables import Step

DECODER_PHASES = ("prefill", "decode")


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
    def mean_ms(self) -> float:
        return 1000 * self.seconds / self.calls if self.calls else 0.0

    @property
    def mean_rows(self) -> float:
        return self.rows / self.calls if self.calls else 0.0


def summarize_steps(connection: Connection, job_id: int, by: By) -> list[StepSummary]:
    """One summary per group; empty for a job without timings."""
    sums = (func.sum(Step.calls), func.sum(Step.rows), func.sum(Step.tokens), func.sum(Step.seconds))
    keys: tuple[Any, ...] = {By.PHASE: (Step.phase,), By.STEP: (Step.step,), By.LANE: (Step.worker_id, Step.lane)}[by]
    statement = select(*sums, *keys).where(Step.job_id == job_id).group_by(*keys)
    if by is By.STEP:
        statement = statement.where(Step.phase.in_(DECODER_PHASES))
    statement = statement.order_by(*((sums[3].desc(),) if by is By.PHASE else ()), *keys)
    found = connection.execute(statement).all()
    total = sum(float(row[3]) for row in found) or 1.0
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
