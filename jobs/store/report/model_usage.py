"""How much each model was used: jobs, documents, tokens and seconds, from counters and sums alone."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, column, func, select, table

from jobs.outcome import MODEL_PHASES
from jobs.store.report.job_summary import V_JOBS

V_PHASES = table("v_phases", *(column(name) for name in ("job_id", "phase", "calls", "seconds")))


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """All jobs of one model together."""

    model: str  # as the jobs name it
    jobs: int
    newest_job: int
    last_used_at: datetime  # submit of that job
    documents: int  # with a result
    source_tokens: int
    target_tokens: int
    seconds: float  # of model calls, summed over all lanes

    @property
    def ms_per_token(self) -> float | None:
        """Milliseconds of model calls for a token that was generated or scored."""
        return 1000 * self.seconds / self.target_tokens if self.target_tokens and self.seconds else None


def model_usage(connection: Connection) -> list[ModelUsage]:
    """Every model that a job names, the costliest first."""
    timed = connection.execute(
        select(V_JOBS.c.model, func.sum(V_PHASES.c.seconds).label("seconds"))
        .join_from(V_PHASES, V_JOBS, V_JOBS.c.job_id == V_PHASES.c.job_id)
        .where(V_PHASES.c.phase.in_(MODEL_PHASES))
        .group_by(V_JOBS.c.model)
    )
    seconds = {row.model: row.seconds for row in timed}
    sums = [func.sum(V_JOBS.c[name]).label(name) for name in ("succeeded", "source_tokens", "target_tokens")]
    rows = connection.execute(
        select(
            V_JOBS.c.model,
            func.count().label("jobs"),
            func.max(V_JOBS.c.job_id).label("newest_job"),
            func.max(V_JOBS.c.created_at).label("last_used_at"),
            *sums,
        ).group_by(V_JOBS.c.model)
    )
    found = []
    for row in rows:
        values: list[Any] = [*row[:4], *map(int, row[4:]), float(seconds.get(row.model) or 0.0)]  # sums may be numeric
        found.append(ModelUsage(*values))
    return sorted(found, key=lambda usage: (-usage.seconds, usage.model))
