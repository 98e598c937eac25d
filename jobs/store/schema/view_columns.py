"""What each public view and each of its columns means, for docs/schema.md. The SQL is in `views`.

A column that is one of a table's has the description of that column, unless it says more here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, LargeBinary, Text
from sqlalchemy.orm import InstrumentedAttribute

from jobs.stage import FILTER
from jobs.store.schema.cache_report_tables import CacheReportStep, StoredCacheReport
from jobs.store.schema.clock import UtcDateTime
from jobs.store.schema.declarative import Base
from jobs.store.schema.provider_tables import HandoverCounts, JobProvider, ProviderChange
from jobs.store.schema.result_tables import RESULTS
from jobs.store.schema.rollup_tables import (
    LENGTHS_PER_ROW,
    FailureCounts,
    MeasureCounts,
    MinuteSums,
    PastLengthSums,
    PhaseSums,
    RecordedBatch,
    StepSums,
)
from jobs.store.schema.tables import Document, Job, JobCounts, Shard, ShardEvent, Step, Worker
from jobs.tasks.kind import VIEW_ORDER, Type
from jobs.tasks.kinds import RESULT_COLUMNS

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


def describe(column: Column[Any]) -> Description:
    """The description that a column of a table was declared with (`jobs.store.schema.column`)."""
    (name,) = (name for types, name in TYPES.items() if isinstance(column.type, types))
    return Description(name, column.doc or "", column.info.get("unit"), bool(column.nullable))


def _same(attribute: InstrumentedAttribute[Any], meaning: str | None = None, *, null: bool = False) -> Description:
    """The description of a view's column that is a column of a table; `null`: the view's outer join adds nulls."""
    found = describe(attribute.property.columns[0])
    return Description(found.type, meaning or found.meaning, found.unit, null or found.is_nullable)


def _of_documents() -> Iterator[tuple[str, Description]]:
    """The columns of a document, and those of results: null for a document without one, or with the result of a task
    that does not have them."""
    status = "`ok` (there is a result), `waiting`, `rejected`, `failed`, `quarantined`, `cancelled` or `skipped`"
    for name in VIEW_ORDER:
        if name == "status":
            yield name, Description("text", status)
        elif (one := RESULT_COLUMNS.get(name)) is not None:
            yield name, Description(OF_RESULTS[one.type], one.meaning, one.unit, True)
        elif name == "id" or name in Document.__table__.c:
            yield name, _same(Document.external_id if name == "id" else getattr(Document, name))
        else:
            found = _same(getattr(RESULTS[FILTER], name))
            yield name, Description(found.type, f"all tasks: {found.meaning}", found.unit, True)


def _all_of(table: type[Base], but: str = "") -> dict[str, Description]:
    """Every column of a table except one."""
    return {column.name: describe(column) for column in table.__table__.columns if column.name != but}  # type: ignore[arg-type]  # columns of a table, not of any selectable


def _of_cache_reports() -> dict[str, Description]:
    """The columns of the table, but for the stamp of files, with the ratios behind the columns that they come from."""
    behind = {
        "uncached_s": {"ratio": Description("float", "how many times faster it is with the cache", "factor", True)},
        "uncached_late_s": {
            "cached_growth": Description(
                "float",
                "with the cache: `cached_late_s` / `cached_early_s`; 1 where a step costs the same however many tokens "
                "stand before it",
                "factor",
                True,
            ),
            "uncached_growth": Description("float", "the same without the cache", "factor", True),
        },
    }
    found = {"report_id": _same(StoredCacheReport.id)}
    for name, described in _all_of(StoredCacheReport, but="id").items():
        if name != "files_stamp":
            found |= {name: described, **behind.get(name, {})}
    return found


VIEW_COLUMNS = {
    "v_jobs": View(
        "One row per job, from counters alone: as quick with ten million documents as with ten.",
        {
            "job_id": _same(Job.id),
            "name": _same(Job.name),
            "task": _same(Job.task),
            "model": _same(Job.model),
            "state": _same(Job.state),
            "paused": _same(Job.paused),
            "priority": _same(Job.priority),
            "reason": _same(Job.reason),
            "source": _same(Job.source),
            "documents": _same(JobCounts.documents),
            "succeeded": _same(JobCounts.succeeded),
            "rejected": _same(JobCounts.rejected, "lines that could not be read as a document"),
            "failed": _same(JobCounts.failed, "that the engine could not process"),
            "quarantined": _same(JobCounts.quarantined, "that kill the process which works on them"),
            "cancelled": _same(JobCounts.cancelled, "cancelled before their turn"),
            "waiting": Description("integer", "neither a result nor a reason why there is none", "documents"),
            "shards": _same(JobCounts.shards),
            "shards_open": _same(JobCounts.shards_open),
            "estimated_tokens": _same(JobCounts.estimated_tokens),
            "estimated_done": _same(JobCounts.estimated_done),
            "source_tokens": _same(JobCounts.source_tokens),
            "target_tokens": _same(JobCounts.target_tokens),
            "segments": _same(JobCounts.segments),
            "segments_reused": _same(JobCounts.segments_reused),
            "created_at": _same(Job.created_at),
            "ingested_at": _same(Job.ingested_at),
            "started_at": _same(Job.started_at),
            "finished_at": _same(Job.finished_at),
            "queue": _same(Job.queue),
            "documents_reused": _same(JobCounts.documents_reused),
            "skipped": _same(JobCounts.skipped, "without a result in the stage before, or not kept by the filter"),
            "chain": _same(Job.chain),
            "stage": _same(Job.stage),
            "paused_at": _same(Job.paused_at),
            "idle_s": _same(Job.idle_s),
        },
    ),
    "v_documents": View(
        "One row per document, with its result where there is one. Columns of results are null for a document without "
        "a result and for other tasks than those named.",
        dict(_of_documents()),
    ),
    "v_steps": View(
        "One row per model call, or other phase of a batch of documents; with `--timing batches` one per phase and "
        "batch. The time of the last `record` of a shard is in no row: it is known only after the shard is closed.",
        {
            "job_id": _same(Step.job_id),
            "shard_id": _same(Step.shard_id),
            "epoch": _same(Step.epoch),
            "host": _same(Worker.host, "host name of the worker", null=True),
            "worker_id": _same(Step.worker_id),
            "lane": _same(Step.lane),
            "phase": _same(Step.phase),
            "step": _same(Step.step),
            "rows": _same(Step.rows),
            "tokens": _same(Step.tokens),
            "past_length": _same(Step.past_length),
            "calls": _same(Step.calls),
            "seconds": _same(Step.seconds),
            "recorded_at": _same(Step.recorded_at),
        },
    ),
    "v_phases": View(
        "One row per job and phase: sums over `v_steps`, kept up to date in `phase_sums`.",
        {
            "job_id": _same(PhaseSums.job_id),
            "phase": _same(Step.phase),
            "calls": _same(PhaseSums.calls),
            "rows": _same(PhaseSums.rows),
            "tokens": _same(PhaseSums.tokens),
            "seconds": _same(PhaseSums.seconds),
        },
    ),
    "v_shards": View(
        "One row per shard.",
        {
            "shard_id": _same(Shard.id),
            "job_id": _same(Shard.job_id),
            "start": _same(Shard.start),
            "stop": _same(Shard.stop),
            "estimated_tokens": _same(Shard.estimated_tokens),
            "queue": _same(Shard.queue),
            "state": _same(Shard.state),
            "available_at": _same(Shard.available_at),
            "worker_id": _same(Shard.lease_owner, "worker that holds the lease"),
            "lane": _same(Shard.lane),
            "epoch": _same(Shard.lease_epoch),
            "lease_until": _same(Shard.lease_until),
            "in_flight": _same(Shard.in_flight),
            "attempts": _same(Shard.attempts),
            "crashes": _same(Shard.crashes),
        },
    ),
    "v_shard_events": View(
        "One row per event of a shard, from an append-only log.",
        {
            "job_id": _same(ShardEvent.job_id),
            "shard_id": _same(ShardEvent.shard_id),
            "at": _same(ShardEvent.at),
            "event": _same(ShardEvent.event),
            "epoch": _same(ShardEvent.epoch),
            "worker_id": _same(ShardEvent.worker_id),
            "documents": _same(ShardEvent.documents),
            "detail": _same(ShardEvent.detail),
        },
    ),
    "v_workers": View(
        "One row per worker process that ever registered.",
        {
            "worker_id": _same(Worker.id),
            "host": _same(Worker.host),
            "pid": _same(Worker.pid),
            "version": _same(Worker.version),
            "device": _same(Worker.device),
            "provider": _same(Worker.provider),
            "lanes": _same(Worker.lanes),
            "models": _same(Worker.models),
            "kv_bytes": _same(Worker.kv_bytes),
            "buffer_allocations": _same(Worker.buffer_allocations),
            "buffer_reuses": _same(Worker.buffer_reuses),
            "started_at": _same(Worker.started_at),
            "heartbeat_at": _same(Worker.heartbeat_at),
            "stopped_at": _same(Worker.stopped_at),
            "queues": _same(Worker.queues),
            "node": _same(Worker.node),
            "asked_to": _same(Worker.asked_to),
            "asked_by": _same(Worker.asked_by),
            "asked_at": _same(Worker.asked_at),
            "parent_pid": _same(Worker.parent_pid),
            "killed": _same(Worker.killed),
        },
    ),
    "v_throughput": View(
        "One row per job and minute in which documents ended with a result or failed, or a timed batch ended.",
        {
            "job_id": _same(MinuteSums.job_id),
            "minute": _same(MinuteSums.minute, "start of the minute; on SQLite `YYYY-MM-DD HH:MM`"),
            "documents": _same(MinuteSums.documents),
            "source_tokens": _same(JobCounts.source_tokens),
            "target_tokens": _same(JobCounts.target_tokens),
            "failed": _same(MinuteSums.failed),
            "busy_s": _same(MinuteSums.busy_s),
            "model_s": _same(MinuteSums.model_s),
        },
    ),
    "v_batches": View(
        "One row per recorded batch. A batch of schema 0005 or older was reconstructed from the log.",
        {
            "batch_id": _same(RecordedBatch.id),
            **_all_of(RecordedBatch, but="id"),
        },
    ),
    "v_decoder_steps": View("One row per job, phase and decoder step: sums over `v_steps`.", _all_of(StepSums)),
    "v_past_lengths": View(
        f"One row per job and {LENGTHS_PER_ROW} past lengths: sums over the `decode` calls of `v_steps` that were "
        "timed one by one.",
        _all_of(PastLengthSums),
    ),
    "v_failures": View(
        "One row per job and reason why documents have no result; without cancelled documents.",
        {
            "job_id": _same(FailureCounts.job_id),
            "status": _same(FailureCounts.status),
            "error_code": _same(Document.error_code),
            "documents": _same(FailureCounts.documents),
        },
    ),
    "v_measures": View(
        "The histograms of a job: one row per measure and bucket that is not empty. A bucket of `perplexity` begins at "
        "2^(bucket / 8), one of `length` at 2^(bucket / 4).",
        _all_of(MeasureCounts),
    ),
    "v_job_providers": View(
        "One row per job and provider, in the order in which they are asked. Documents that no provider answered are "
        "in no row: they failed, or are rankings with the provider `none` in `v_documents`.",
        _all_of(JobProvider),
    ),
    "v_handovers": View(
        "One row per job, provider and reason why it did not answer documents, which the next provider got.",
        _all_of(HandoverCounts),
    ),
    "v_provider_changes": View(
        "One row per moment at which a provider failed a lane, so that its answers came from another one, or answered "
        "it again.",
        {"change_id": _same(ProviderChange.id), **_all_of(ProviderChange, but="id")},
    ),
    "v_cache_reports": View(
        "One row per measurement of `kvjobs bench cache`: the same sequences decoded with the KV cache and without it.",
        _of_cache_reports(),
    ),
    "v_cache_report_steps": View(
        "One row per step of such a measurement.",
        {
            "report_id": _same(CacheReportStep.report_id),
            "model": _same(StoredCacheReport.model),
            "stages": _same(StoredCacheReport.stages),
            "target_tokens": _same(StoredCacheReport.target_tokens),
            "step": _same(CacheReportStep.step),
            "cached_s": _same(CacheReportStep.cached_s),
            "uncached_s": _same(CacheReportStep.uncached_s),
        },
    ),
}
