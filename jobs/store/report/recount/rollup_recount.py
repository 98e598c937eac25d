"""The rollups of a job counted again, from the rows that they sum up."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Integer,
    and_,
    case,
    cast,
    column,
    func,
    literal,
    or_,
    select,
    table,
    type_coerce,
)

from jobs.buckets import LAST, PER_NAT, BucketMeasure, bucket_of
from jobs.outcome import DECODER_PHASES, STAGE
from jobs.store.rollups import FAILURES
from jobs.store.schema.clock import UtcDateTime
from jobs.store.schema.current_sums import current
from jobs.store.schema.result_tables import Pass
from jobs.store.schema.results import SUMMED, ResultTable
from jobs.store.schema.rollup_tables import (
    LENGTHS_PER_ROW,
    FailureCounts,
    FlagCounts,
    MeasureCounts,
    MinuteSums,
    PastLengthSums,
    PhaseSums,
    RecordedBatch,
    StepSums,
)
from jobs.store.schema.tables import Document, JobCounts

Sums = dict[tuple[Any, ...], tuple[float, ...]]  # key of a row without its job -> the other columns
SHOWN = 3
# The view, whose sums the rollups are.
STEPS = table(
    "v_steps", *map(column, ("job_id", "phase", "step", "past_length", "calls", "rows", "tokens", "seconds"))
).c


def find_wrong_rollups(connection: Connection, result: ResultTable, job_id: int) -> Iterator[str]:
    """A sentence for each rollup that differs from a recount, with the first differences."""
    recounts = {
        **_timings(connection, job_id),
        MinuteSums: _minutes(connection, result, job_id),
        MeasureCounts: _perplexities(connection, result, job_id) | _lengths(connection, result, job_id),
        FailureCounts: _failures(connection, job_id),
        FlagCounts: _flags(connection, result, job_id),
    }
    for rollup, expected in recounts.items():
        stored = _stored(connection, rollup, job_id)
        wrong = [key for key in sorted(stored.keys() | expected) if not _equal(stored.get(key), expected.get(key))]
        if wrong:
            some = "; ".join(f"{_shown(key)}: {stored.get(key)}, not {expected.get(key)}" for key in wrong[:SHOWN])
            yield f"rows of {rollup.__tablename__} that differ from the recount: {len(wrong)} ({some})"
    yield from _batches(connection, job_id)


def _stored(connection: Connection, rollup: Any, job_id: int) -> Sums:
    _, *columns = rollup.__table__.columns
    num_keys = len(rollup.__table__.primary_key) - 1
    now = current(rollup)
    read = (getattr(now, column.name) for column in columns)
    return _read(connection, select(*read).where(now.job_id == job_id), num_keys)


def _timings(connection: Connection, job_id: int) -> dict[Any, Sums]:
    """The sums of the timings by phase, by decoder step and by past length, all from one pass over them: their
    combinations are few."""
    is_timed_alone = and_(STEPS.phase == "decode", STEPS.calls == 1)
    length = case((is_timed_alone, STEPS.past_length - STEPS.past_length % LENGTHS_PER_ROW)).label("length")
    key = (STEPS.phase, STEPS.step, length)
    sums = (func.sum(STEPS.calls), func.sum(STEPS.rows), func.sum(STEPS.tokens), func.sum(STEPS.seconds))
    phases: list[Sums] = []
    steps: list[Sums] = []
    lengths: list[Sums] = []
    for phase, step, past_length, *values in connection.execute(
        select(*key, *sums).where(STEPS.job_id == job_id).group_by(*key)
    ):
        calls, rows, tokens, seconds = map(float, values)
        phases.append({(phase,): (calls, rows, tokens, seconds)})
        if phase in DECODER_PHASES:
            steps.append({(phase, step): (calls, rows, tokens, seconds)})
        if past_length is not None:
            lengths.append({(past_length,): (calls, rows, seconds)})
    return {PhaseSums: _added(*phases), StepSums: _added(*steps), PastLengthSums: _added(*lengths)}


def _minutes(connection: Connection, result: ResultTable, job_id: int) -> Sums:
    """The sums of each minute: results by the minute in which they were recorded; failures, which have no time, and
    seconds by the minute of their batch. None for a filter, which has no batches."""
    if result is Pass:
        return {}
    none, batch = literal(0), RecordedBatch
    tokens = [func.sum(SUMMED[result].get(name, literal(0))) for name in ("source_tokens", "target_tokens")]
    minute = _minute(connection, result.finished_at)
    recorded = select(minute, func.count(), none, *tokens, none, none).where(result.job_id == job_id).group_by(minute)
    minute = _minute(connection, batch.ended_at)
    of_batches = (
        select(minute, none, func.sum(batch.failed), none, none, func.sum(batch.busy_s), func.sum(batch.model_s))
        .where(batch.job_id == job_id, or_(batch.failed > 0, batch.calls > 0))
        .group_by(minute)
    )
    return _added(_read(connection, recorded, 1), _read(connection, of_batches, 1))


def _perplexities(connection: Connection, result: ResultTable, job_id: int) -> Sums:
    of_task = result.kind.mean
    if of_task is None:
        return {}
    total, number = getattr(result, of_task.total), getattr(result, of_task.count)
    mean = (total if of_task.is_cost else -total) / number
    position = mean * literal(PER_NAT, Float())
    last = LAST[BucketMeasure.PERPLEXITY]
    # A cast of PostgreSQL rounds. SQLite may be built without floor; its cast cuts off, which is the same from 0 on.
    below = cast(position if connection.dialect.name == "sqlite" else func.floor(position), Integer())
    bucket = case((position < 0, 0), (position >= last, last), else_=below).label("bucket")
    found = select(literal(BucketMeasure.PERPLEXITY.value), bucket, func.count())
    return _read(connection, found.where(result.job_id == job_id, number > 0, mean.is_not(None)).group_by(bucket), 2)


def _lengths(connection: Connection, result: ResultTable, job_id: int) -> Sums:
    """Lengths are counted in SQL and put into buckets here: no database's logarithm is exact for powers of two."""
    if result.kind.mean is None or result.kind.length is None:
        return {}
    length = getattr(result, result.kind.length)
    buckets: Counter[int] = Counter()
    found = select(length, func.count()).where(result.job_id == job_id, length > 0).group_by(length)
    for tokens, documents in connection.execute(found):
        buckets[bucket_of(BucketMeasure.LENGTH, tokens)] += documents
    return {(BucketMeasure.LENGTH.value, bucket): (documents,) for bucket, documents in buckets.items()}


def _failures(connection: Connection, job_id: int) -> Sums:
    key = (Document.status, func.coalesce(Document.error_code, "").label("code"))
    failed = (Document.job_id == job_id, Document.status.in_(FAILURES))
    return _read(connection, select(*key, func.count()).where(*failed).group_by(*key), 2)


def _flags(connection: Connection, result: ResultTable, job_id: int) -> Sums:
    """Results are counted by all their flags together, of which there are few combinations."""
    combined = select(result.flags, func.count()).where(result.job_id == job_id, result.flags != "")
    counted: Counter[str] = Counter()
    for flags, documents in connection.execute(combined.group_by(result.flags)):
        counted.update(dict.fromkeys(flags.split(), documents))
    return {(flag,): (documents,) for flag, documents in counted.items()}


def _batches(connection: Connection, job_id: int) -> Iterator[str]:
    """The batches account for every result and every timing, and for every failure, whether or not it was retried."""
    batch, counts, phase = RecordedBatch, current(JobCounts), current(PhaseSums)
    number, *of_batches = connection.execute(
        select(
            func.count(),
            *(func.sum(column) for column in (batch.documents, batch.failed, batch.source_tokens, batch.target_tokens)),
            *(func.sum(column) for column in (batch.calls, batch.rows, batch.tokens, batch.busy_s)),
        ).where(batch.job_id == job_id)
    ).one()
    if not number:  # a job from another database may have no log of batches
        return
    of_counters = connection.execute(
        select(counts.succeeded, counts.failed + counts.quarantined, counts.source_tokens, counts.target_tokens).where(
            counts.job_id == job_id
        )
    ).one()
    of_phases = connection.execute(
        select(
            *(func.coalesce(func.sum(column), 0) for column in (phase.calls, phase.rows, phase.tokens, phase.seconds))
        ).where(phase.job_id == job_id, ~phase.phase.startswith(STAGE))
    ).one()
    names = ("documents", "failed", "source_tokens", "target_tokens", "calls", "rows", "tokens", "busy_s")
    for name, in_batches, elsewhere in zip(names, of_batches, (*of_counters, *of_phases), strict=True):
        if not (in_batches >= elsewhere if name == "failed" else _equal((in_batches,), (elsewhere,))):
            yield f"the batches have {name} {in_batches} in all, the other rows of the job {elsewhere}"


def _minute(connection: Connection, time: Any) -> ColumnElement[Any]:
    if connection.dialect.name == "sqlite":
        return type_coerce(func.substr(time, 1, 16) + ":00.000", UtcDateTime()).label("minute")
    return func.date_trunc("minute", time, type_=UtcDateTime()).label("minute")


def _read(connection: Connection, statement: Any, num_keys: int) -> Sums:
    return {tuple(row[:num_keys]): tuple(map(float, row[num_keys:])) for row in connection.execute(statement)}


def _added(*some: Sums) -> Sums:
    by_key: dict[tuple[Any, ...], list[tuple[float, ...]]] = defaultdict(list)
    for sums in some:
        for key, values in sums.items():
            by_key[key].append(values)
    return {key: tuple(map(math.fsum, zip(*values, strict=True))) for key, values in by_key.items()}


def _equal(a: Sequence[float] | None, b: Sequence[float] | None) -> bool:
    """Whether sums are equal; of seconds, whose last bits depend on the order of the terms, nearly."""
    if a is None or b is None:
        return a is b
    return all(math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-6) for x, y in zip(a, b, strict=True))


def _shown(key: tuple[Any, ...]) -> str:
    return " ".join(map(str, key))
