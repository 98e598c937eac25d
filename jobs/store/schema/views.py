"""The public views, which dashboards and people query: the SQL of each, and what its columns mean (docs/schema.md).

Columns stay, and new ones are added at the end. Every upgrade drops the views and creates them again, so each is
declared here and in no migration. A column that is one of a table's has the description of that column, unless it says
more here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Connection, Float, Integer, LargeBinary, Text, text
from sqlalchemy.orm import InstrumentedAttribute

from jobs.measures import LARGEST_EXPONENT, LN_2
from jobs.stage import FILTER
from jobs.store.schema.clock import UtcDateTime
from jobs.store.schema.current_sums import create_current_views, drop_current_views
from jobs.store.schema.declarative import Base
from jobs.store.schema.lasting_tables import CacheReportStep, StoredCacheReport
from jobs.store.schema.provider_tables import HandoverCounts, JobProvider, ProviderChange
from jobs.store.schema.result_tables import RESULTS
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
from jobs.store.schema.step_table import CALL, PHASE, UNNESTED, Step
from jobs.store.schema.tables import Document, Job, JobCounts, Shard, ShardEvent, Worker
from jobs.tasks.kind import VIEW_ORDER, Derived, Field, Type
from jobs.tasks.kinds import KINDS, RESULT_COLUMNS

# The types of a table's columns by the names that the page has for them.
TYPES = {
    (BigInteger, Integer): "integer",
    (Float,): "float",
    (Boolean,): "boolean",
    (UtcDateTime,): "time",
    (LargeBinary,): "bytes",
    (Text,): "text",
}
OF_RESULTS = {Type.TEXT: "text", Type.JSON: "text", Type.INTEGER: "integer", Type.FLOAT: "float"}
INFINITY = {"sqlite": "9e999", "postgresql": "CAST('Infinity' AS double precision)"}
MINUTE = {"sqlite": "substr(minute, 1, 16)", "postgresql": "minute"}

# For PostgreSQL a function that SQLite has: a value in a document's other fields, for `--where` and for queries.
JSON_EXTRACT = """
    CREATE OR REPLACE FUNCTION json_extract(document text, path text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT jsonb_path_query_first(document::jsonb, path::jsonpath) #>> '{}' $$"""


@dataclass(frozen=True, slots=True)
class Description:
    """A column as docs/schema.md shows it."""

    type: str  # one of TYPES
    meaning: str
    unit: str | None = None  # of a number
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A view as docs/schema.md shows it, with its columns in order."""

    meaning: str
    columns: Mapping[str, Description]


@dataclass(frozen=True, slots=True)
class _ViewColumn:
    """A column of a view, and the SQL of its value."""

    name: str
    sql: str
    described: Description


def describe(column: Column[Any]) -> Description:
    """The description that a column of a table was declared with (`jobs.store.schema.declarative.column`)."""
    (name,) = (name for types, name in TYPES.items() if isinstance(column.type, types))
    return Description(name, column.doc or "", column.info.get("unit"), bool(column.nullable))


def create_views(connection: Connection) -> None:
    """Create every view; none may exist yet."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(JSON_EXTRACT)
    create_current_views(connection)
    for name, definition in _definitions(connection.dialect.name).items():
        connection.execute(text(f"CREATE VIEW {name} AS {definition}"))


def drop_views(connection: Connection) -> None:
    for name in VIEW_COLUMNS:
        connection.execute(text(f"DROP VIEW IF EXISTS {name}"))
    drop_current_views(connection)
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("DROP FUNCTION IF EXISTS json_extract(text, text)")


def _definitions(dialect: str) -> dict[str, str]:
    differing = {"infinity": INFINITY[dialect], "minute": MINUTE[dialect], "steps": UNNESTED[dialect]}
    return {
        name: f"SELECT {', '.join(f'{column.sql} AS {column.name}' for column in columns)} FROM {source}".format(
            **differing
        )
        for name, (_, source, columns) in _VIEWS.items()
    }


def _column_of(
    attribute: InstrumentedAttribute[Any], name: str = "", meaning: str = "", *, sql: str = "", null: bool = False
) -> _ViewColumn:
    """A column of a view that is a column of a table, under its own name unless another is given; `null`: the view's
    outer join adds nulls."""
    column = attribute.property.columns[0]
    found = describe(column)
    described = replace(found, meaning=meaning or found.meaning, is_nullable=null or found.is_nullable)
    return _ViewColumn(name or column.name, sql or f"{column.table.name}.{column.name}", described)


def _columns_of(*attributes: InstrumentedAttribute[Any]) -> Iterator[_ViewColumn]:
    return map(_column_of, attributes)


def _all_of(table: type[Base], but: str = "") -> Iterator[_ViewColumn]:
    """Every column of a table except one."""
    return (_column_of(getattr(table, column.name)) for column in table.__table__.columns if column.name != but)


def _as_numeric(attribute: InstrumentedAttribute[Any]) -> _ViewColumn:
    """An integer that is numeric on PostgreSQL: once it was a sum over other rows, and the types of a view stay."""
    return _column_of(attribute, sql=f"CAST({attribute.key} AS numeric)")


def _document_columns() -> Iterator[_ViewColumn]:
    """The columns of a document, and those of results: null for a document without one, or with the result of a task
    that does not have them."""
    tables = [kind.table for kind in KINDS.values()]
    status = "`ok` (there is a result), `waiting`, `rejected`, `failed`, `quarantined`, `cancelled` or `skipped`"
    has_result = f"{_first_of([f'{table}.position' for table in tables])} IS NOT NULL"
    for name in VIEW_ORDER:
        if name == "status":
            sql = f"CASE WHEN {has_result} THEN 'ok' ELSE COALESCE(documents.status, 'waiting') END"
            yield _ViewColumn(name, sql, Description("text", status))
        elif (column := RESULT_COLUMNS.get(name)) is not None:
            sql = _first_of([_value(kind.table, source) for kind, source in column.sources])
            yield _ViewColumn(name, sql, Description(OF_RESULTS[column.type], column.meaning, column.unit, True))
        elif name == "id" or name in Document.__table__.c:
            yield _column_of(Document.external_id if name == "id" else getattr(Document, name), name)
        else:
            found = describe(RESULTS[FILTER].__table__.c[name])
            described = Description(found.type, f"all tasks: {found.meaning}", found.unit, True)
            yield _ViewColumn(name, _first_of([f"{table}.{name}" for table in tables]), described)


def _first_of(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"COALESCE({', '.join(values)})"


def _value(table: str, column: Field | Derived) -> str:
    """A field, or what follows from the sums of a result, as in `jobs.measures`. An exponential that no double can hold
    is infinite; PostgreSQL would refuse the whole query instead."""
    if isinstance(column, Field):
        return f"{table}.{column.name}"
    total, count = f"{table}.{column.total}", f"{table}.{column.count}"
    if column.in_bits:
        return f"CASE WHEN {count} > 0 THEN {total} / ({count} * {LN_2!r}) END"
    mean = f"{total} / {count}"
    finite = f"CASE WHEN {mean} < {LARGEST_EXPONENT} THEN exp({mean}) ELSE {{infinity}} END"
    return f"CASE WHEN {count} > 0 THEN {finite} END"


def _cache_report_columns() -> Iterator[_ViewColumn]:
    """The columns of the table, but for the stamp of files, with the ratios behind the columns that they come from."""
    growth = (
        "with the cache: `cached_late_s` / `cached_early_s`; 1 where a step costs the same however many tokens stand "
        "before it"
    )
    behind = {
        "uncached_s": (("ratio", "uncached_s / NULLIF(cached_s, 0)", "how many times faster it is with the cache"),),
        "uncached_late_s": (
            ("cached_growth", "cached_late_s / NULLIF(cached_early_s, 0)", growth),
            ("uncached_growth", "uncached_late_s / NULLIF(uncached_early_s, 0)", "the same without the cache"),
        ),
    }
    yield _column_of(StoredCacheReport.id, "report_id")
    for column in _all_of(StoredCacheReport, but="id"):
        if column.name != "files_stamp":
            yield column
        for name, sql, meaning in behind.get(column.name, ()):
            yield _ViewColumn(name, sql, Description("float", meaning, "factor", True))


_PHASE = _ViewColumn("phase", "steps.phase", Description("text", PHASE))
_OF_CALL = [
    _ViewColumn(name, f"steps.{name}", Description("float" if unit == "s" else "integer", meaning, unit))
    for name, (unit, meaning) in CALL.items()
]
# The name of each view: what a row is, the tables it is made of, its columns.
_VIEWS: dict[str, tuple[str, str, list[_ViewColumn]]] = {
    "v_jobs": (
        "One row per job, from counters alone: as quick with ten million documents as with ten.",
        "jobs JOIN current_job_counts AS job_counts ON job_counts.job_id = jobs.id",
        [
            _column_of(Job.id, "job_id"),
            *_columns_of(Job.name, Job.task, Job.model, Job.state, Job.paused, Job.priority, Job.reason, Job.source),
            *_columns_of(JobCounts.documents, JobCounts.succeeded),
            _column_of(JobCounts.rejected, meaning="lines that could not be read as a document"),
            _column_of(JobCounts.failed, meaning="that the engine could not process"),
            _column_of(JobCounts.quarantined, meaning="that kill the process which works on them"),
            _column_of(JobCounts.cancelled, meaning="cancelled before their turn"),
            _ViewColumn(
                "waiting",
                "documents - succeeded - rejected - failed - quarantined - cancelled - skipped",
                Description("integer", "neither a result nor a reason why there is none", "documents"),
            ),
            *_columns_of(JobCounts.shards, JobCounts.shards_open, JobCounts.estimated_tokens, JobCounts.estimated_done),
            *_columns_of(
                JobCounts.source_tokens, JobCounts.target_tokens, JobCounts.segments, JobCounts.segments_reused
            ),
            *_columns_of(Job.created_at, Job.ingested_at, Job.started_at, Job.finished_at, Job.queue),
            _column_of(JobCounts.documents_reused),
            _column_of(JobCounts.skipped, meaning="without a result in the stage before, or not kept by the filter"),
            *_columns_of(Job.chain, Job.stage, Job.paused_at, Job.idle_s, Job.is_open, Job.closed_at, Job.owner),
        ],
    ),
    "v_documents": (
        "One row per document, with its result where there is one. Columns of results are null for a document without "
        "a result and for other tasks than those named.",
        "documents "
        + " ".join(
            f"LEFT JOIN {kind.table} ON {kind.table}.job_id = documents.job_id"
            f" AND {kind.table}.position = documents.position"
            for kind in KINDS.values()
        ),
        list(_document_columns()),
    ),
    "v_steps": (
        "One row per model call, or other phase of a batch of documents; with `--timing batches` one per phase and "
        "batch. The time of the last `record` of a shard is in no row: it is known only after the shard is closed.",
        "{steps} AS steps LEFT JOIN workers ON workers.id = steps.worker_id",
        [
            *_columns_of(Step.job_id, Step.shard_id, Step.epoch),
            _column_of(Worker.host, meaning="host name of the worker", null=True),
            *(*_columns_of(Step.worker_id, Step.lane), _PHASE, *_OF_CALL),
            _column_of(Step.recorded_at),
        ],
    ),
    "v_phases": (
        "One row per job and phase: sums over `v_steps`, kept up to date in `phase_sums`.",
        "current_phase_sums AS phase_sums",
        [
            _column_of(PhaseSums.job_id),
            replace(_PHASE, sql="phase"),
            *(_as_numeric(PhaseSums.calls), _as_numeric(PhaseSums.rows), _as_numeric(PhaseSums.tokens)),
            _column_of(PhaseSums.seconds),
        ],
    ),
    "v_shards": (
        "One row per shard.",
        "shards",
        [
            _column_of(Shard.id, "shard_id"),
            *_columns_of(Shard.job_id, Shard.start, Shard.stop, Shard.estimated_tokens, Shard.queue, Shard.state),
            _column_of(Shard.available_at),
            _column_of(Shard.lease_owner, "worker_id", "worker that holds the lease"),
            *(_column_of(Shard.lane), _column_of(Shard.lease_epoch, "epoch")),
            *_columns_of(Shard.lease_until, Shard.in_flight, Shard.attempts, Shard.crashes),
        ],
    ),
    "v_shard_events": (
        "One row per event of a shard, from an append-only log.",
        "shard_events",
        list(
            _columns_of(
                *(ShardEvent.job_id, ShardEvent.shard_id, ShardEvent.at, ShardEvent.event, ShardEvent.epoch),
                *(ShardEvent.worker_id, ShardEvent.documents, ShardEvent.detail),
            )
        ),
    ),
    "v_workers": (
        "One row per worker process that ever registered.",
        "workers",
        [
            _column_of(Worker.id, "worker_id"),
            *_columns_of(Worker.host, Worker.pid, Worker.version, Worker.device, Worker.provider, Worker.lanes),
            *_columns_of(Worker.models, Worker.kv_bytes, Worker.buffer_allocations, Worker.buffer_reuses),
            *_columns_of(Worker.started_at, Worker.heartbeat_at, Worker.stopped_at, Worker.queues, Worker.node),
            *_columns_of(Worker.asked_to, Worker.asked_by, Worker.asked_at, Worker.parent_pid, Worker.killed),
        ],
    ),
    "v_throughput": (
        "One row per job and minute in which documents ended with a result or failed, or a timed batch ended.",
        "current_minute_sums AS minute_sums",
        [
            _column_of(MinuteSums.job_id),
            _column_of(MinuteSums.minute, meaning="start of the minute; on SQLite `YYYY-MM-DD HH:MM`", sql="{minute}"),
            _column_of(MinuteSums.documents),
            _as_numeric(JobCounts.source_tokens),
            _as_numeric(JobCounts.target_tokens),
            *_columns_of(MinuteSums.failed, MinuteSums.busy_s, MinuteSums.model_s),
        ],
    ),
    "v_batches": (
        "One row per recorded batch. A batch of schema 0005 or older was reconstructed from the log.",
        "batches",
        [_column_of(RecordedBatch.id, "batch_id"), *_all_of(RecordedBatch, but="id")],
    ),
    "v_decoder_steps": (
        "One row per job, phase and decoder step: sums over `v_steps`.",
        "current_step_sums AS step_sums",
        list(_all_of(StepSums)),
    ),
    "v_past_lengths": (
        f"One row per job and {LENGTHS_PER_ROW} past lengths: sums over the `decode` calls of `v_steps` that were "
        "timed one by one.",
        "current_past_length_sums AS past_length_sums",
        list(_all_of(PastLengthSums)),
    ),
    "v_failures": (
        "One row per job and reason why documents have no result; without cancelled documents.",
        "current_failure_counts AS failure_counts",
        [
            *_columns_of(FailureCounts.job_id, FailureCounts.status),
            _column_of(Document.error_code, sql="NULLIF(error_code, '')"),
            _column_of(FailureCounts.documents),
        ],
    ),
    "v_flags": (
        "One row per job and flag: how many documents have a result with it. Of `v_documents` the same are found by "
        "`' ' || flags || ' ' LIKE '% truncated %'`.",
        "current_flag_counts AS flag_counts",
        list(_all_of(FlagCounts)),
    ),
    "v_measures": (
        "The histograms of a job: one row per measure and bucket that is not empty. A bucket of `perplexity` begins at "
        "2^(bucket / 8), one of `length` at 2^(bucket / 4).",
        "current_measure_counts AS measure_counts",
        list(_all_of(MeasureCounts)),
    ),
    "v_job_providers": (
        "One row per job and provider, in the order in which they are asked. Documents that no provider answered are "
        "in no row: they failed, or are rankings with the provider `none` in `v_documents`.",
        "current_job_providers AS job_providers",
        list(_all_of(JobProvider)),
    ),
    "v_handovers": (
        "One row per job, provider and reason why it did not answer documents, which the next provider got.",
        "current_handover_counts AS handover_counts",
        list(_all_of(HandoverCounts)),
    ),
    "v_provider_changes": (
        "One row per moment at which a provider failed a lane, so that its answers came from another one, or answered "
        "it again.",
        "provider_changes",
        [_column_of(ProviderChange.id, "change_id"), *_all_of(ProviderChange, but="id")],
    ),
    "v_cache_reports": (
        "One row per measurement of `kvjobs bench cache`: the same sequences decoded with the KV cache and without it.",
        "cache_reports",
        list(_cache_report_columns()),
    ),
    "v_cache_report_steps": (
        "One row per step of such a measurement.",
        "cache_report_steps JOIN cache_reports ON cache_reports.id = cache_report_steps.report_id",
        [
            _column_of(CacheReportStep.report_id),
            *_columns_of(StoredCacheReport.model, StoredCacheReport.stages, StoredCacheReport.target_tokens),
            *_columns_of(CacheReportStep.step, CacheReportStep.cached_s, CacheReportStep.uncached_s),
        ],
    ),
}
VIEW_COLUMNS = {
    name: View(meaning, {column.name: column.described for column in columns})
    for name, (meaning, _, columns) in _VIEWS.items()
}
