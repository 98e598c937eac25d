"""The tables and their columns, from which docs/schema.md is made. `migrations/` creates them; `kvjobs db check`
compares the two.

A job is what one `submit` made. Its documents are its corpus, line by line. A shard is a range of documents, which
a worker leases. Each document ends in exactly one terminal state: a row in the table of results of its job's task
(`translations`, `scores`, `rankings`, `generations` or `passes`), or a `status` here.
"""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint, false, text
from sqlalchemy.orm import Mapped

from jobs.store.schema import (  # noqa: F401 - `Base.metadata` holds them too
    delta_table,
    file_table,
    glossary_table,
    lasting_tables,
    provider_tables,
    result_tables,
    rollup_tables,
    step_table,
    token_table,
    upload_tables,
    verification_table,
    webhook_table,
)
from jobs.store.schema.declarative import Base as Base
from jobs.store.schema.declarative import BigId, column

# SQLite gives the number of a deleted row to a new one, except in tables that are created with AUTOINCREMENT.
AUTOINCREMENT = {"sqlite_autoincrement": True}

HAS_STATUS = text("status IS NOT NULL")  # of a document


class Job(Base):
    """What one `submit` made: a corpus, a task, a model and options."""

    __tablename__ = "jobs"

    id: Mapped[int] = column("number of the job", BigId, unit="id", primary_key=True)
    name: Mapped[str | None] = column("name given by `--name`; commands take it in place of the number", unique=True)
    task: Mapped[str] = column("`translate`, `score`, `rerank`, `generate` or `filter`")
    model: Mapped[str] = column("name of the model, or path of its folder; `none`: a filter has none")
    model_revision: Mapped[str] = column("sha256 over the model's files at submit")
    options: Mapped[str] = column("options of the task, canonical JSON (`JobSpec.options_json`)")
    options_digest: Mapped[str] = column("sha256 of task, model revision and options")
    content_key: Mapped[str] = column("sha256 of corpus, how it is read, and `options_digest`", unique=True)
    source: Mapped[str] = column("where the corpus came from, for display")
    corpus_digest: Mapped[str] = column("sha256 of the bytes of the corpus")
    reading: Mapped[str | None] = column(
        "how the corpus is read, JSON, with `max_rejected` as `submit` was given it; null for a job of an older version"
    )
    state: Mapped[str] = column("`ingesting`, `running`, `done`, `cancelled` or `failed`")
    reason: Mapped[str | None] = column("why the job failed or was paused")
    priority: Mapped[int] = column("jobs with a higher priority are leased first", unit="rank")
    queue: Mapped[str] = column("`cpu`: for any worker; `gpu`: for one with a GPU", server_default="cpu")
    paused: Mapped[bool] = column("no further shard is leased until `kvjobs resume`")
    cancel_requested_at: Mapped[datetime | None] = column("when `kvjobs cancel` was called")
    ingested: Mapped[int] = column("written so far; a killed submit continues from here", unit="documents")
    ingest_digest: Mapped[str | None] = column(
        "sha256 over those documents, which a continued submit must find unchanged"
    )
    created_at: Mapped[datetime] = column("start of the submit")
    ingested_at: Mapped[datetime | None] = column("when the last document was written and workers could see the job")
    started_at: Mapped[datetime | None] = column("first lease of a shard")
    finished_at: Mapped[datetime | None] = column("when the job became `done`, `cancelled` or `failed`")
    providers: Mapped[str | None] = column(
        "the providers that may answer it, in order, JSON (`ProviderOrder.to_json`); null: onnx alone"
    )
    chain: Mapped[int | None] = column(
        "number of the first job of its chain (`submit --then`); null: it belongs to none", unit="id"
    )
    stage: Mapped[int | None] = column("its place in the chain, from 1; null without a chain", unit="stages")
    reads: Mapped[int | None] = column(
        "the stage whose result is the text of its documents; 0: the text of the corpus; null without a chain",
        unit="stages",
    )

    paused_at: Mapped[datetime | None] = column("since when it is paused; null while it is not")
    owner: Mapped[str | None] = column(
        "who submitted it: the name of a token (`kvjobs tokens`), or user and host of the command line; null for a job "
        "of an older version"
    )
    notify: Mapped[str | None] = column(
        "where a webhook is sent when it ends, a JSON array of addresses; null: nowhere"
    )
    idle_s: Mapped[float] = column(
        "for how long it was paused before, or had ended before a retry: no part of the time that it took",
        unit="s",
        server_default="0",
    )
    is_open: Mapped[bool] = column(
        "documents may still be appended to it; it ends after it is closed, and its documents have ended",
        server_default=false(),
    )
    closed_at: Mapped[datetime | None] = column(
        "since when no document can be appended; null while it is open, and for a job of a corpus"
    )

    __table_args__ = (Index(None, "state", "priority"), Index(None, "chain", "stage", unique=True), AUTOINCREMENT)


class Document(Base):
    """A line of a corpus. A document with neither a `status` nor a result is waiting."""

    __tablename__ = "documents"

    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id", primary_key=True)
    position: Mapped[int] = column("place in the corpus, from 0", unit="position", primary_key=True)
    external_id: Mapped[str | None] = column(
        "id in the corpus, else the line number; null for a line without usable id"
    )
    numeric_id: Mapped[bool] = column("the corpus writes the id as a number")
    unnamed: Mapped[bool] = column("the corpus has no id: `external_id` is the line number", server_default=false())
    line: Mapped[int] = column("line of the corpus file, from 1", unit="line number")
    text: Mapped[str | None] = column(
        "what is processed: a text, or JSON for pairs and queries; null if it cannot be read"
    )
    fields: Mapped[str | None] = column("the line's other fields, a JSON object; exported unchanged")
    estimated_tokens: Mapped[int] = column("estimate made from the length of the text", unit="tokens")
    status: Mapped[str | None] = column(
        "why there is no result: `rejected` (the line cannot be read), `failed`, `quarantined` (kills its process), "
        "`cancelled`, or `skipped` (the stage before has no result for it, or the filter does not keep it); null while "
        "waiting, and with a result"
    )
    error_code: Mapped[str | None] = column("short, stable code of the error, such as `bad-json` or `non-finite`")
    error: Mapped[str | None] = column("the error in a sentence")
    route: Mapped[str | None] = column(
        "the language by which its models were chosen (`--model auto`); null in jobs without routes by language"
    )
    own_options: Mapped[str | None] = column(
        "options that go before the job's, a JSON object: those that a file says of the unit, such as its `markup`, "
        "and those of fields that the job names (`--max-chars-field` ...); null: none"
    )

    __table_args__ = (
        UniqueConstraint("job_id", "external_id"),
        # The few documents with a status are listed by reason, and reopened by `retry`.
        Index(
            None,
            "job_id",
            "status",
            "error_code",
            sqlite_where=HAS_STATUS,
            postgresql_where=HAS_STATUS,
        ),
        # Rows are written and read in the order of the key, so SQLite stores them in the index of the key.
        {"sqlite_with_rowid": False},
    )


class Shard(Base):
    """A range of a job's documents, which a worker leases as a whole."""

    __tablename__ = "shards"

    id: Mapped[int] = column("number of the shard", BigId, unit="id", primary_key=True)
    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id")
    start: Mapped[int] = column("first of its documents", unit="position")
    stop: Mapped[int] = column("one past the last of its documents", unit="position")
    estimated_tokens: Mapped[int] = column("of its documents that were not rejected", unit="tokens")
    queue: Mapped[str] = column("the job's queue")
    state: Mapped[str] = column("`ready`, `leased`, `done` or `cancelled`")
    available_at: Mapped[datetime] = column("when it last became ready; for display, since a clock may be set back")
    lease_owner: Mapped[int | None] = column("worker that holds the lease (`workers.id`)", unit="id")
    lane: Mapped[int | None] = column("number of the lane in that worker, from 0", unit="id")
    lease_epoch: Mapped[int] = column(
        "+ 1 with every lease and every expiry; a result recorded under an older epoch is refused", unit="epoch"
    )
    lease_token: Mapped[str | None] = column(
        "random, of the newest lease; no other lease has it, not even after a restore of the database"
    )
    lease_until: Mapped[datetime | None] = column("when the lease runs out unless a heartbeat prolongs it")
    in_flight: Mapped[str | None] = column("positions being computed now, JSON; the suspects when the process dies")
    attempts: Mapped[int] = column("leases so far", unit="leases")
    crashes: Mapped[int] = column("taken back in a row without a recorded batch", unit="leases")

    __table_args__ = (Index(None, "job_id", "state", "id"), Index(None, "state", "lease_until"), AUTOINCREMENT)


class JobCounts(Base):
    """A job's counters, changed in the transaction that inserts or ends what they count; on PostgreSQL without what is
    in `deltas` still, which the views add."""

    __tablename__ = "job_counts"

    job_id: Mapped[int] = column("the job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id", primary_key=True)
    documents: Mapped[int] = column("all lines, rejected ones included", unit="documents")
    succeeded: Mapped[int] = column("with a result", unit="documents")
    rejected: Mapped[int] = column("with this status", unit="documents")
    failed: Mapped[int] = column("with this status", unit="documents")
    quarantined: Mapped[int] = column("with this status", unit="documents")
    cancelled: Mapped[int] = column("with this status", unit="documents")
    shards: Mapped[int] = column("in all states", unit="shards")
    shards_open: Mapped[int] = column("neither done nor cancelled", unit="shards")
    estimated_tokens: Mapped[int] = column("of documents that were not rejected", unit="tokens")
    estimated_done: Mapped[int] = column("of documents with a result or a status, without rejected ones", unit="tokens")
    source_tokens: Mapped[int] = column(
        "translate: of the source; score: of the sources of pairs; rerank: that went through the model", unit="tokens"
    )
    target_tokens: Mapped[int] = column("translate: generated; score, rerank: scored", unit="tokens")
    segments: Mapped[int] = column("translate: sentences of documents with a result", unit="segments")
    segments_reused: Mapped[int] = column("translate: sentences taken from the translation memory", unit="segments")
    documents_reused: Mapped[int] = column(
        "score: taken from the memory of scores", unit="documents", server_default="0"
    )
    skipped: Mapped[int] = column("with this status", unit="documents", server_default="0")


class JobTurn(Base):
    """A row that never changes for each job: on PostgreSQL, those who record lock it one after the other before they
    add to the job's counters."""

    __tablename__ = "job_turns"

    job_id: Mapped[int] = column("the job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id", primary_key=True)


class ShardEvent(Base):
    """Append-only log of what happened to each shard."""

    __tablename__ = "shard_events"

    id: Mapped[int] = column("number of the row, in the order of writing", BigId, unit="id", primary_key=True)
    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id")
    shard_id: Mapped[int] = column("its shard", unit="id")
    at: Mapped[datetime] = column("when it happened")
    event: Mapped[str] = column(
        "`leased`, `recorded` (a batch), `finished`, `released` (given back), `cancelled`, `expired` or `lost` (lease "
        "taken back: time ran out, or the worker is dead), `stale_commit` (results refused), `died` (a sandbox "
        "process), `quarantined`"
    )
    epoch: Mapped[int] = column("lease epoch", unit="epoch")
    worker_id: Mapped[int | None] = column("worker concerned", unit="id")
    documents: Mapped[int | None] = column("how many it concerned", unit="documents")
    detail: Mapped[str | None] = column("positions concerned, and how a process died")

    __table_args__ = (Index(None, "job_id", "shard_id"), Index(None, "job_id", "id"))


class Worker(Base):
    """A worker process: for display, and to notice at once that a process of this machine is dead; never a fence."""

    __tablename__ = "workers"

    id: Mapped[int] = column("number of the worker", BigId, unit="id", primary_key=True)
    host: Mapped[str] = column("host name")
    machine: Mapped[str] = column("which boot of which machine, since a pid is unique only there")
    pid: Mapped[int] = column("process id", unit="id")
    parent_pid: Mapped[int | None] = column(
        "process id of `kvjobs worker`, whose child this process is; null for workers of older versions", unit="id"
    )
    process_started: Mapped[float] = column(
        "start of the process since boot, to recognize a pid given to another process since", unit="clock ticks"
    )
    version: Mapped[str] = column("of kvjobs")
    device: Mapped[str] = column("`cpu`, `cuda:0` ...")
    provider: Mapped[str] = column("execution provider of onnxruntime")
    lanes: Mapped[int] = column("threads that process shards", unit="lanes")
    queues: Mapped[str] = column("queues it serves, separated by commas (`jobs.queues`)", server_default="cpu")
    node: Mapped[str | None] = column("its name among the Celery workers; null for a worker without a broker")
    models: Mapped[str] = column("warm models with the seconds each took to load, a JSON object")
    kv_bytes: Mapped[int] = column("size of its buffers for keys and values", unit="bytes")
    buffer_allocations: Mapped[int] = column("of those buffers since its start", unit="allocations")
    buffer_reuses: Mapped[int] = column("batches since its start that found them allocated", unit="batches")
    started_at: Mapped[datetime] = column("when it registered")
    heartbeat_at: Mapped[datetime] = column("its last sign of life")
    stopped_at: Mapped[datetime | None] = column("when it stopped, or was found dead")
    killed: Mapped[bool] = column(
        "its process, or its parent, ended without being asked to stop: `kill -9`, a lack of memory, a crash",
        server_default=false(),
    )
    asked_to: Mapped[str | None] = column(
        "`pause`: lease no shard until it is resumed; `drain`: finish the shards in hand, then exit; null: to work"
    )
    asked_by: Mapped[str | None] = column("who asked for that, as in `job_actions`")
    asked_at: Mapped[datetime | None] = column("when")

    __table_args__ = (AUTOINCREMENT,)


class SingletonRole(Base):
    """Roles that one process of the fleet performs for all; held for a limited time, and renewed by the holder."""

    __tablename__ = "posts"

    name: Mapped[str] = column(
        "`dispatcher` (sends hints to the broker) or `reaper` (takes leases back)", primary_key=True
    )
    holder: Mapped[str] = column("process that holds the role")
    held_until: Mapped[datetime] = column("when another process may take it")
