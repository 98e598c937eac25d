"""What was measured of models: by `kvjobs bench cache`, a row for each measurement and for each of its steps; by
`kvjobs models verify`, a row for each run, and what it says about a model as it is now.

Knows: the tables, revisions and stamps of files as texts. Does not know: models, files, how it is measured.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, inspect, select

from jobs.store.database import Database
from jobs.store.schema.clock import db_time
from jobs.store.schema.lasting_tables import CacheReportStep, StoredCacheReport
from jobs.store.schema.verification_table import StoredVerification
from jobs.text.formatting import counted, figure, percent

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
            row = {name: storable(getattr(report, name)) for name in _COLUMNS} | {"measured_at": now}
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


def storable(value: Any) -> Any:
    """A path may have bytes that are not UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


CHECKPOINT, DIFFERS, MEASURED = "checkpoint", "differs", "measured"  # of `worker.model_tools.verify`


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A run of `models verify`; the columns are described in `StoredVerification`."""

    model: str
    model_revision: str
    files_stamp: str
    check_name: str
    against: str
    verdict: str
    num_texts: int
    text_unit: str
    corpus: str | None
    same_tokens: float | None
    worst: float | None
    drift: float | None
    checks: Sequence[Mapping[str, Any]]
    version: str
    verified_at: datetime | None = None  # None: not yet written

    @property
    def has_failed(self) -> bool:
        return self.verdict == DIFFERS

    @property
    def is_with_checkpoint(self) -> bool:
        return self.check_name == CHECKPOINT

    @property
    def compared(self) -> str:
        """What was compared with what, and how far it agreed."""
        texts = f"{counted(self.num_texts, self.text_unit)} of {self.corpus or 'the bundled weather bulletins'}"
        figures = []
        if self.same_tokens is not None:
            figures.append(f"{percent(self.same_tokens)} of tokens the same")
        what, unit = ("score", "") if self.text_unit == "pair" else ("token", " nats")
        if self.worst is not None:
            figures.append(f"largest difference of a {what} {figure(self.worst)}{unit}")
        elif self.drift is not None:
            figures.append(f"mean difference of a {what} {figure(self.drift)}{unit}")
        return "; ".join((f"{texts} against {self.against}", *figures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The newest verification of a model, and whether it was of the files that the model has now."""

    verification: Verification
    is_current: bool

    @property
    def words(self) -> str:
        """The verdict, for people."""
        found = self.verification
        if not self.is_current:
            return "not verified since it changed"
        if found.has_failed:
            return f"differs from {'its checkpoint' if found.is_with_checkpoint else found.against}"
        if not found.is_with_checkpoint:
            return "agrees with itself, no checkpoint compared"
        return "measured against its checkpoint" if found.verdict == MEASURED else "same as its checkpoint"

    @property
    def word(self) -> str:
        """The verdict, for a narrow column."""
        if not self.is_current:
            return "outdated"
        found = self.verification
        if found.has_failed:
            return DIFFERS
        if not found.is_with_checkpoint:
            return "with itself"
        return MEASURED if found.verdict == MEASURED else "same"

    def as_row(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        fields = dataclasses.asdict(self.verification)
        del fields["files_stamp"]
        return {"words": self.words, "is_current": self.is_current, "compared": self.verification.compared, **fields}


def log_verification(database: Database, verification: Verification) -> None:
    """Write a row. Numbers that are not finite become null."""
    row = dataclasses.asdict(verification) | {"verified_at": db_time()}
    checks = [{name: _finite(value) for name, value in check.items()} for check in verification.checks]
    row["checks"] = json.dumps(checks, ensure_ascii=False)
    with database.writing() as connection:
        values = {name: storable(_finite(value)) for name, value in row.items()}
        connection.execute(insert(StoredVerification).values(values))


def newest_verifications(connection: Connection) -> list[Verification]:
    """The newest of each model and revision, newest first; none in a database of an older schema."""
    if not inspect(connection).has_table(StoredVerification.__tablename__):
        return []
    table = StoredVerification
    newest = select(func.max(table.id)).group_by(table.model, table.model_revision)
    columns = [getattr(table, name) for name in Verification.__dataclass_fields__]
    rows = connection.execute(select(*columns).where(table.id.in_(newest)).order_by(table.id.desc())).mappings()
    return [Verification(**{**row, "checks": json.loads(row["checks"])}) for row in rows]


def standing(
    stored: Iterable[Verification], names: Sequence[str], stamp: Callable[[], str], revision: Callable[[], str | None]
) -> Standing | None:
    """What `stored`, newest first, says about the model of these names; None if it was never verified.

    `revision` reads every file, so it is called only for a model that was verified, whose files have another stamp:
    they were changed or copied since, or another machine verified them.
    """
    known = [verification for verification in stored if verification.model in names]
    if not known:
        return None
    now = stamp()
    current = next((verification for verification in known if verification.files_stamp == now), None)
    wanted = current.model_revision if current else revision()
    same = next((verification for verification in known if verification.model_revision == wanted), None)
    return Standing(verification=same or known[0], is_current=same is not None)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
