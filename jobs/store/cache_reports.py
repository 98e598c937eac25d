"""What `kvjobs bench cache` measured: a row for each measurement, and a row for each of its steps.

Knows: the tables, revisions and stamps of files as texts. Does not know: models, files, how it is measured.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.lasting_tables import CacheReportStep, StoredCacheReport

Steps = Sequence[tuple[float, float]]  # of each step from 0: seconds with the cache, seconds without it


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReportRow:
    """A measurement of `bench cache`; the columns are described in `StoredCacheReport`."""

    model: str
    model_revision: str
    files_stamp: str
    kind: str
    stages: int | None
    host: str
    processor: str
    num_sequences: int
    source_tokens: int
    target_tokens: int
    batch_size: int
    num_beams: int
    repeats: int
    cached_s: float
    uncached_s: float
    cached_step_s: float
    uncached_step_s: float
    cached_early_s: float
    uncached_early_s: float
    cached_late_s: float
    uncached_late_s: float
    num_different: int
    kv_bytes: int
    version: str
    steps: Steps
    id: int | None = None  # None: not yet written
    measured_at: datetime | None = None  # None: not yet written

    @property
    def ratio(self) -> float:
        """How many times faster decoding is with the cache."""
        return self.uncached_s / self.cached_s

    @property
    def cached_growth(self) -> float:
        """The time of a late step with the cache, divided by that of an early one."""
        return self.cached_late_s / self.cached_early_s

    @property
    def uncached_growth(self) -> float:
        """The same without the cache."""
        return self.uncached_late_s / self.uncached_early_s

    @property
    def is_equal(self) -> bool:
        """Whether both gave the same tokens."""
        return self.num_different == 0

    def as_row(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        fields = dataclasses.asdict(self)
        del fields["files_stamp"]
        derived = ("ratio", "cached_growth", "uncached_growth", "is_equal")
        return fields | {name: getattr(self, name) for name in derived}


def log_cache_reports(database: Database, reports: Iterable[CacheReportRow]) -> list[int]:
    """Write the measurements of one call, all or none; their numbers, in order."""
    numbers = []
    with database.writing() as connection:
        now = connection.execute(select(db_time())).scalar_one()
        for report in reports:
            row = {name: _storable(getattr(report, name)) for name in _COLUMNS} | {"measured_at": now}
            number = connection.execute(insert(StoredCacheReport).values(row)).inserted_primary_key
            assert number is not None
            numbers.append(int(number[0]))
            steps = [
                {"report_id": numbers[-1], "step": step, "cached_s": cached_s, "uncached_s": uncached_s}
                for step, (cached_s, uncached_s) in enumerate(report.steps)
            ]
            if steps:
                connection.execute(insert(CacheReportStep), steps)
    return numbers


def newest_cache_reports(connection: Connection) -> list[CacheReportRow]:
    """The measurements of the newest call for each model, and for each number of stages that it was split into: in the
    order of models, whole ones first, then of lengths."""
    table = StoredCacheReport
    newest = select(func.max(table.id)).group_by(table.model, table.stages)
    call = select(table.model, table.stages, table.host, table.measured_at).where(table.id.in_(newest)).subquery()
    is_of_call = (
        (table.model == call.c.model)
        & table.stages.is_not_distinct_from(call.c.stages)
        & (table.host == call.c.host)
        & (table.measured_at == call.c.measured_at)
    )
    columns = [getattr(table, name) for name in (*_COLUMNS, "id", "measured_at")]
    order = (table.model, func.coalesce(table.stages, 0), table.target_tokens, table.id)
    rows = connection.execute(select(*columns).join(call, is_of_call).order_by(*order)).mappings().all()
    steps = _steps_of(connection, [row["id"] for row in rows])
    return [CacheReportRow(**row, steps=steps.get(row["id"], ())) for row in rows]


def _steps_of(connection: Connection, report_ids: Sequence[int]) -> dict[int, list[tuple[float, float]]]:
    table = CacheReportStep
    found: dict[int, list[tuple[float, float]]] = {}
    query = select(table.report_id, table.cached_s, table.uncached_s).where(table.report_id.in_(report_ids))
    for row in connection.execute(query.order_by(table.report_id, table.step)):
        found.setdefault(row.report_id, []).append((row.cached_s, row.uncached_s))
    return found


_COLUMNS = tuple(name for name in CacheReportRow.__dataclass_fields__ if name not in ("steps", "id", "measured_at"))


def _storable(value: Any) -> Any:
    """A path may have bytes that are not UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
