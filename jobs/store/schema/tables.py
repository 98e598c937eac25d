"""The tables, and what each column means. `migrations/` makes them; `kvjobs db check` compares the two.

A job is what one `submit` made. Its documents are its corpus, line by line. A shard is a range of documents, which
a worker leases. Each document ends in exactly one terminal state: a row in the table of results of its job's task
(`translations`, `scores` or `rankings`), or a `status` here.
"""

import enum
from datetime import datetime
from typing import ClassVar

from sqlalchemy import (
    BigInteger,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from jobs.store.schema.clock import UtcDateTime

# SQLite numbers rows by itself only for the exact type INTEGER.
BigId = BigInteger().with_variant(Integer, "sqlite")

# ... and gives the number of a row that was deleted to the next one, but for tables that are made so.
NEVER_AGAIN = {"sqlite_autoincrement": True}

WENT_WRONG = text("status IS NOT NULL")  # of a document


class JobState(enum.StrEnum):
    """
    ingesting --ingested--> running --last shard closed--> done
        |                      |
        +--aborted--> failed   +--cancel, last shard closed--> cancelled

    retry leads from done and cancelled back to running; to ingesting where the corpus was not read to its end.
    """

    INGESTING = "ingesting"  # its documents are still being written; no worker sees it
    RUNNING = "running"  # shards may be leased (unless `paused`)
    DONE = "done"  # every document is in a terminal state
    CANCELLED = "cancelled"  # somebody cancelled it, and no shard is open any more
    FAILED = "failed"  # the ingest was given up; `reason` says why


class ShardState(enum.StrEnum):
    """
    ready --lease--> leased --record ... finish--> done
      ^                 |
      +--release--------+
      +--expire (epoch + 1, crashes + 1)
    ready --cancel--> cancelled
    """

    READY = "ready"  # may be leased
    LEASED = "leased"  # `lease_owner` works on it until `lease_until`
    DONE = "done"  # every document of it is in a terminal state
    CANCELLED = "cancelled"  # its documents without a result were cancelled


class DocumentStatus(enum.StrEnum):
    """Why a document has no result. A document without status and result is waiting; `retry` makes it wait again."""

    REJECTED = "rejected"  # the line could not be read as a document
    FAILED = "failed"  # the engine could not process it
    QUARANTINED = "quarantined"  # it kills the process that works on it
    CANCELLED = "cancelled"  # the job was cancelled before its turn


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar = {
        str: Text,
        datetime: UtcDateTime,
        bytes: LargeBinary,
        float: Float,  # double precision on PostgreSQL
        int: BigInteger().with_variant(Integer, "sqlite"),
    }


class Job(Base):
    __tablename__ = "jobs"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str | None] = mapped_column(unique=True)  # may be used in place of the number
    task: Mapped[str]
    model: Mapped[str]  # a model's name, or the path of its folder
    model_revision: Mapped[str]  # sha256 over the model's files at submit
    options: Mapped[str]  # canonical JSON, see JobSpec.options_json
    options_digest: Mapped[str]  # sha256 of task, model revision and options
    content_key: Mapped[str] = mapped_column(unique=True)  # sha256 of corpus, how it is read, and options_digest
    source: Mapped[str]  # where the corpus came from, for people
    corpus_digest: Mapped[str]  # sha256 of the bytes of the corpus
    reading: Mapped[
        str | None
    ]  # JSON: how the corpus is read, see Corpus.reading_json; null for a job of an older version
    state: Mapped[str]
    reason: Mapped[str | None]  # why it failed or was paused
    priority: Mapped[int]  # higher goes first
    queue: Mapped[str] = mapped_column(server_default="cpu")  # cpu: any worker may do it; gpu: only one that has a GPU
    paused: Mapped[bool]
    cancel_requested_at: Mapped[datetime | None]
    ingested: Mapped[int]  # documents written so far; a submit that was killed goes on from here
    ingest_digest: Mapped[str | None]  # sha256 over those documents, so that it goes on with the same ones
    created_at: Mapped[datetime]
    ingested_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]  # first lease
    finished_at: Mapped[datetime | None]

    __table_args__ = (Index(None, "state", "priority"), NEVER_AGAIN)


class Document(Base):
    __tablename__ = "documents"

    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)  # 0, 1, ... in the order of the corpus
    external_id: Mapped[str | None]  # the corpus' own id, else the line number; null for a line without a usable one
    numeric_id: Mapped[bool]  # the corpus wrote the id as a number
    unnamed: Mapped[bool] = mapped_column(server_default=false())  # the corpus has none: the id is the line's number
    line: Mapped[int]  # of the corpus, from 1
    text: Mapped[str | None]  # null if rejected
    fields: Mapped[str | None]  # the line's other fields, JSON; they pass through to the export
    estimated_tokens: Mapped[int]
    status: Mapped[str | None]  # a DocumentStatus; null while waiting, and where there is a result
    error_code: Mapped[str | None]
    error: Mapped[str | None]

    __table_args__ = (
        UniqueConstraint("job_id", "external_id"),
        # The few that went wrong are asked for by reason, and put back by `retry`.
        Index(
            None,
            "job_id",
            "status",
            "error_code",
            sqlite_where=WENT_WRONG,
            postgresql_where=WENT_WRONG,
        ),
        # The rows come and go in the order of the key, so the key is where SQLite keeps them.
        {"sqlite_with_rowid": False},
    )


class Shard(Base):
    __tablename__ = "shards"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    start: Mapped[int]  # first position
    stop: Mapped[int]  # one past the last position
    estimated_tokens: Mapped[int]
    queue: Mapped[str]
    state: Mapped[str]
    available_at: Mapped[datetime]  # when it last became ready; for display, since a clock may be set back
    lease_owner: Mapped[int | None]  # workers.id
    lane: Mapped[int | None]  # of that worker
    lease_epoch: Mapped[int]  # + 1 with every lease and every expiry; fences off whoever held it before
    lease_token: Mapped[str | None]  # of the newest lease: random, so that no other has it, also after a restore
    lease_until: Mapped[datetime | None]
    in_flight: Mapped[str | None]  # positions being computed now, JSON; the suspects when the process dies
    attempts: Mapped[int]  # leases so far
    crashes: Mapped[int]  # leases in a row that ended without a word and without a recorded batch

    __table_args__ = (Index(None, "job_id", "state", "id"), Index(None, "state", "lease_until"), NEVER_AGAIN)


class ResultRow(Base):
    """What the results of all tasks have. The first result of a document stays; no second one is written over it."""

    __abstract__ = True

    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    flags: Mapped[str]  # `jobs.outcome.Flag`s, sorted, separated by a space
    shard_id: Mapped[int]
    epoch: Mapped[int]  # of the lease under which it was recorded
    worker_id: Mapped[int]
    finished_at: Mapped[datetime]


class Translation(ResultRow):
    """What a document of a translating job became."""

    __tablename__ = "translations"

    text: Mapped[str]
    log_prob: Mapped[float]  # natural log, summed over the generated tokens
    num_segments: Mapped[int]
    num_reused: Mapped[int]  # segments taken from the translation memory
    num_source_tokens: Mapped[int]
    num_target_tokens: Mapped[int]
    alternatives: Mapped[str | None]  # JSON, the n best; null unless asked for

    __table_args__ = ({"sqlite_with_rowid": False},)


class Score(ResultRow):
    """How likely a model finds a document of a scoring job. Sums: perplexities are derived from them, in the views."""

    __tablename__ = "scores"

    nll_sum: Mapped[float]  # -log p in nats, over the scored tokens; finite
    num_tokens: Mapped[int]  # scored
    num_words: Mapped[int]  # of the text that they cover
    num_bytes: Mapped[int]
    num_source_tokens: Mapped[int]  # of a pair: of its source
    token_scores: Mapped[str | None]  # JSON, each token; null unless asked for
    num_reused: Mapped[int] = mapped_column(server_default="0")  # 1 where it was known before, and not computed

    __table_args__ = ({"sqlite_with_rowid": False},)


class Ranking(ResultRow):
    """The candidates of a query of a reranking job, in their new order."""

    __tablename__ = "rankings"

    candidates: Mapped[str]  # JSON list, best first
    num_candidates: Mapped[int]
    num_unscored: Mapped[int]  # of them; they kept their place
    num_tokens: Mapped[int]  # scored
    num_computed: Mapped[int]  # tokens that went through the model
    num_shared: Mapped[int]  # tokens that did not, because what they begin was computed already

    __table_args__ = ({"sqlite_with_rowid": False},)


class MemoryEntry(Base):
    """The translation memory: a segment that was translated before is not translated again."""

    __tablename__ = "translation_memory"

    key: Mapped[bytes] = mapped_column(primary_key=True)  # sha256 of what decides the result, and of the segment
    texts: Mapped[str]  # JSON list, best first
    scores: Mapped[str]  # JSON list
    log_prob: Mapped[float]
    num_source_tokens: Mapped[int]
    num_target_tokens: Mapped[int]
    flags: Mapped[str]

    __table_args__ = ({"sqlite_with_rowid": False},)


class ScoreEntry(Base):
    """The memory of scores: a document that was scored before is not scored again."""

    __tablename__ = "score_memory"

    key: Mapped[bytes] = mapped_column(primary_key=True)  # sha256 of what decides the result, and of the document
    nll_sum: Mapped[float]
    num_tokens: Mapped[int]
    num_words: Mapped[int]
    num_bytes: Mapped[int]
    num_source_tokens: Mapped[int]
    flags: Mapped[str]
    token_scores: Mapped[str | None]  # JSON; null unless the options ask for them

    __table_args__ = ({"sqlite_with_rowid": False},)


class JobCounts(Base):
    """Bumped in the same transaction by the number of rows that were really inserted."""

    __tablename__ = "job_counts"

    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    documents: Mapped[int]  # all lines, rejected ones too
    succeeded: Mapped[int]
    rejected: Mapped[int]
    failed: Mapped[int]
    quarantined: Mapped[int]
    cancelled: Mapped[int]
    shards: Mapped[int]
    shards_open: Mapped[int]  # neither done nor cancelled
    estimated_tokens: Mapped[int]  # of documents that are not rejected
    estimated_done: Mapped[int]  # ... of those in a terminal state
    source_tokens: Mapped[int]
    target_tokens: Mapped[int]
    segments: Mapped[int]
    segments_reused: Mapped[int]
    documents_reused: Mapped[int] = mapped_column(server_default="0")  # whose score was known


class Step(Base):
    """One model call, or one other phase of a batch: where the seconds went."""

    __tablename__ = "steps"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    shard_id: Mapped[int]
    epoch: Mapped[int]
    worker_id: Mapped[int]
    lane: Mapped[int]
    phase: Mapped[str]  # encode | prefill | decode | head | segment | tokenize | detokenize | queue | record
    step: Mapped[int]
    rows: Mapped[int]
    tokens: Mapped[int]
    past_length: Mapped[int]
    calls: Mapped[int]  # 1, or how many were summed
    seconds: Mapped[float]
    recorded_at: Mapped[datetime]

    __table_args__ = (Index(None, "job_id"),)


class ShardEvent(Base):
    """Append-only: who leased, recorded, finished, released, lost or cancelled what."""

    __tablename__ = "shard_events"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    shard_id: Mapped[int]
    at: Mapped[datetime]
    event: Mapped[str]
    epoch: Mapped[int]
    worker_id: Mapped[int | None]
    documents: Mapped[int | None]  # how many it concerned
    detail: Mapped[str | None]

    __table_args__ = (Index(None, "job_id", "shard_id"),)


class Worker(Base):
    """For display, and to see at once that a process of this machine is dead; never a fence."""

    __tablename__ = "workers"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    host: Mapped[str]
    machine: Mapped[str]  # which boot of which machine: a pid means something only there
    pid: Mapped[int]
    process_started: Mapped[float]  # tells a pid that was given to another process since
    version: Mapped[str]
    device: Mapped[str]
    provider: Mapped[str]
    lanes: Mapped[int]
    queues: Mapped[str] = mapped_column(server_default="cpu")  # that it serves, separated by commas; see `jobs.queues`
    node: Mapped[str | None]  # its name among the Celery workers; null for a worker without a broker
    models: Mapped[str]  # JSON: what is warm and how many seconds each took to load
    kv_bytes: Mapped[int]
    buffer_allocations: Mapped[int]
    buffer_reuses: Mapped[int]
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]
    stopped_at: Mapped[datetime | None]

    __table_args__ = (NEVER_AGAIN,)


class Post(Base):
    """Work that one process of the fleet does for all; whoever holds the post, for as long as it says so in time."""

    __tablename__ = "posts"

    name: Mapped[str] = mapped_column(primary_key=True)  # dispatcher | reaper
    holder: Mapped[str]
    held_until: Mapped[datetime]
