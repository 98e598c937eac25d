"""The model calls and other phases of a batch: one row, whose timings `v_steps` shows one by one."""

from collections.abc import Iterable
from datetime import datetime

import orjson
from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped

from jobs.outcome import StepTiming
from jobs.store.schema.declarative import Base, BigId, column

PER_SECOND = 1_000_000_000  # of the unit in which `timings` has durations
LEASE = ("job_id", "shard_id", "epoch", "worker_id", "lane")
# What `timings` says of a call, in this order: the columns of `v_steps`, each with its unit and meaning. Durations are
# whole nanoseconds in `timings`, and seconds in the view.
CALL = {
    "step": ("step number", "of `prefill` and `decode`: decoder step, from 0; else 0"),
    "rows": ("rows", "of the model call; of a request its texts; of other phases: documents or segments"),
    "tokens": ("tokens", "positions computed by the call; of a request the tokens that its server counts"),
    "past_length": ("tokens", "cached positions that the call attended to"),
    "calls": ("calls", "1, or how many were summed into this row"),
    "seconds": ("s", "duration; lanes run side by side, so sums exceed the clock's"),
}
PHASE = (
    "model calls: `encode`, `prefill`, `decode`, `head`, `request` (one HTTP request to a provider's server); "
    "`stage.0`, `stage.1` ...: the part of such a call that a stage of a split model took, in its seconds too; "
    "text: `segment`, `tokenize`, `detokenize`; database: `queue` (taking the lease), `record`; `wait`: a pause "
    "before a request is sent again: the server is busy, or the connection broke; with `.via` at its end: of the first "
    "of two models (`--via`), where those without it are of the second; with `.terms`: of sentences that are "
    "translated once more, since they lack terms"
)


class Step(Base):
    """The timings of a batch: of its model calls and its other phases; with `--timing batches` their sum per phase. A
    batch that nothing was timed of has no row."""

    __tablename__ = "steps"

    id: Mapped[int] = column("number of the row", BigId, unit="id", primary_key=True)
    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id")
    shard_id: Mapped[int] = column("its shard", unit="id")
    epoch: Mapped[int] = column("lease epoch", unit="epoch")
    worker_id: Mapped[int] = column("its worker", unit="id")
    lane: Mapped[int] = column("number of the lane in that worker, from 0", unit="id")
    timings: Mapped[str] = column(
        "by phase, JSON: an object of lists, with a list of step, rows, tokens, past length, calls and nanoseconds for "
        "each timing; `v_steps` has a row for each"
    )
    recorded_at: Mapped[datetime] = column("when the row was written")

    __table_args__ = (Index(None, "job_id"),)


def timings_json(timings: Iterable[StepTiming]) -> str:
    """The value of the column `timings`."""
    by_phase: dict[str, list[tuple[int, ...]]] = {}
    for one in timings:
        call = (one.step, one.rows, one.tokens, one.past_length, one.calls, round(one.seconds * PER_SECOND))
        by_phase.setdefault(one.phase, []).append(call)
    return orjson.dumps(by_phase).decode()


def _unnested(number_at: str, tables: str) -> str:
    *numbers, seconds = (f"{number_at.format(place)} AS {name}" for place, name in enumerate(CALL))
    seconds = seconds.replace(" AS ", f" / CAST({PER_SECOND} AS double precision) AS ")
    whose = ", ".join(f"steps.{name}" for name in (*LEASE, "recorded_at"))
    return f"(SELECT {whose}, of_phase.key AS phase, {', '.join(numbers)}, {seconds} FROM steps {tables})"


# A query in place of a table, by dialect: the columns of the table but for the key, with those of a call. On PostgreSQL
# the calls of a phase are cast to an array at once: json_array_elements, and a number at a time out of each, took four
# times as long. OFFSET keeps the planner from casting anew for each number.
UNNESTED = {
    "sqlite": _unnested(
        "json_extract(call.value, '$[{}]')",
        "CROSS JOIN json_each(steps.timings) AS of_phase CROSS JOIN json_each(of_phase.value) AS call",
    ),
    "postgresql": _unnested(
        "of_phase.calls[number][1 + {}]",
        "CROSS JOIN LATERAL (SELECT key, CAST(translate(CAST(value AS text), '[]', '{}') AS bigint[]) AS calls "
        "FROM json_each(CAST(steps.timings AS json)) OFFSET 0) AS of_phase "
        "CROSS JOIN LATERAL generate_series(1, array_length(of_phase.calls, 1)) AS number",
    ),
}
