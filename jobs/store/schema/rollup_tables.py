"""The rollups: sums over the rows of a job, so that a report need not read them all.

Each changes in the transaction that inserts or ends what it sums up, by the rows that this transaction really inserted
(`jobs.store.rollups`), and `kvjobs db check` counts them again.
"""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, BigId, column

LENGTHS_PER_ROW = 32  # of past lengths that one row of `past_length_sums` sums up
WITHOUT_ROWID = {"sqlite_with_rowid": False}  # SQLite stores the rows in the index of their key, side by side


def of_job(**kwargs: object) -> Mapped[int]:
    return column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id", **kwargs)


class PhaseSums(Base):
    """The timings of a job, summed by phase."""

    __tablename__ = "phase_sums"

    job_id: Mapped[int] = of_job(primary_key=True)
    phase: Mapped[str] = column("as in `v_steps`", primary_key=True)
    calls: Mapped[int] = column("model calls, or other phases, that were summed", unit="calls")
    rows: Mapped[int] = column("summed over the calls", unit="rows")
    tokens: Mapped[int] = column("positions computed, summed over the calls", unit="tokens")
    seconds: Mapped[float] = column("summed over all lanes, which run side by side", unit="s")

    __table_args__ = (WITHOUT_ROWID,)


class StepSums(Base):
    """The decoder calls of a job, summed by the number of the step."""

    __tablename__ = "step_sums"

    job_id: Mapped[int] = of_job(primary_key=True)
    phase: Mapped[str] = column("`prefill` or `decode`", primary_key=True)
    step: Mapped[int] = column(
        "decoder step, from 0; with `--timing batches` always 0", unit="step number", primary_key=True
    )
    calls: Mapped[int] = column("decoder calls that were summed", unit="calls")
    rows: Mapped[int] = column("summed over the calls", unit="rows")
    tokens: Mapped[int] = column("positions computed, summed over the calls", unit="tokens")
    seconds: Mapped[float] = column("summed over all lanes, which run side by side", unit="s")

    __table_args__ = (WITHOUT_ROWID,)


class PastLengthSums(Base):
    """The `decode` calls of a job that were timed one by one, summed by how many cached positions they attended to."""

    __tablename__ = "past_length_sums"

    job_id: Mapped[int] = of_job(primary_key=True)
    past_length: Mapped[int] = column(
        f"of `v_steps`, rounded down to a multiple of {LENGTHS_PER_ROW}", unit="tokens", primary_key=True
    )
    calls: Mapped[int] = column("decoder calls that were summed", unit="calls")
    rows: Mapped[int] = column("summed over the calls", unit="rows")
    seconds: Mapped[float] = column("summed over all lanes, which run side by side", unit="s")

    __table_args__ = (WITHOUT_ROWID,)


class MinuteSums(Base):
    """What was recorded of a job in a minute. Nothing is taken away when a document is retried."""

    __tablename__ = "minute_sums"

    job_id: Mapped[int] = of_job(primary_key=True)
    minute: Mapped[datetime] = column("start of the minute", primary_key=True)
    documents: Mapped[int] = column("with a result of that minute", unit="documents")
    failed: Mapped[int] = column("that failed or were quarantined in that minute", unit="documents")
    source_tokens: Mapped[int] = column("of those results, as in `job_counts`", unit="tokens")
    target_tokens: Mapped[int] = column("of those results, as in `job_counts`", unit="tokens")
    busy_s: Mapped[float] = column(
        "seconds of all phases of the batches that ended in that minute, also those before it, summed over all lanes; "
        "0 with `--timing off`",
        unit="s",
        server_default="0",
    )
    model_s: Mapped[float] = column(
        "of these `encode`, `prefill`, `decode`, `head` and `request`: model calls", unit="s", server_default="0"
    )

    __table_args__ = (WITHOUT_ROWID,)


class MeasureCounts(Base):
    """The histograms of a job: documents with a result by their perplexity, and by their length (`jobs.buckets`)."""

    __tablename__ = "measure_counts"

    job_id: Mapped[int] = of_job(primary_key=True)
    measure: Mapped[str] = column(
        "`perplexity`: of a score exp(nll_sum / num_tokens), of a translation exp(-log_prob / num_target_tokens) if "
        "log_prob is known; `length`: scored tokens, of a translation those of its source. Rankings have neither, nor "
        "has a document without a token",
        primary_key=True,
    )
    bucket: Mapped[int] = column(
        "`perplexity`: floor(8 log2(perplexity)), 0 to 255; `length`: floor(4 log2(length)), 0 to 95; larger values "
        "are in the last one",
        unit="bucket number",
        primary_key=True,
    )
    documents: Mapped[int] = column("with a measure in this bucket", unit="documents")

    __table_args__ = (WITHOUT_ROWID,)


class FailureCounts(Base):
    """The documents of a job that have ended without a result, by reason; without cancelled ones."""

    __tablename__ = "failure_counts"

    job_id: Mapped[int] = of_job(primary_key=True)
    status: Mapped[str] = column("`rejected`, `failed` or `quarantined`", primary_key=True)
    error_code: Mapped[str] = column("as in `documents`; empty where it has none", primary_key=True)
    documents: Mapped[int] = column("with this status and code", unit="documents")

    __table_args__ = (WITHOUT_ROWID,)


class FlagCounts(Base):
    """The documents of a job whose result has a flag, by the flag."""

    __tablename__ = "flag_counts"

    job_id: Mapped[int] = of_job(primary_key=True)
    flag: Mapped[str] = column("one of `jobs.outcome.Flag`", primary_key=True)
    documents: Mapped[int] = column("with a result that has this flag, whatever others it has", unit="documents")

    __table_args__ = (WITHOUT_ROWID,)


class RecordedBatch(Base):
    """A batch whose results were recorded."""

    __tablename__ = "batches"

    id: Mapped[int] = column(
        "number of the row; within a job in the order of recording", BigId, unit="id", primary_key=True
    )
    job_id: Mapped[int] = of_job()
    shard_id: Mapped[int] = column("its shard", unit="id")
    epoch: Mapped[int] = column("lease epoch under which it was recorded", unit="epoch")
    worker_id: Mapped[int] = column("its worker", unit="id")
    lane: Mapped[int] = column("number of the lane in that worker, from 0", unit="id")
    ended_at: Mapped[datetime] = column("when it was recorded")
    documents: Mapped[int] = column("that it gave a result", unit="documents")
    failed: Mapped[int] = column("of it that failed or were quarantined", unit="documents")
    source_tokens: Mapped[int] = column("of those results, as in `job_counts`", unit="tokens")
    target_tokens: Mapped[int] = column("of those results, as in `job_counts`", unit="tokens")
    calls: Mapped[int] = column("model calls, and other phases, that were timed; 0 with `--timing off`", unit="calls")
    rows: Mapped[int] = column("summed over these calls", unit="rows")
    tokens: Mapped[int] = column("positions computed, summed over these calls", unit="tokens")
    busy_s: Mapped[float] = column("seconds of all these calls", unit="s")
    model_s: Mapped[float] = column(
        "of these `encode`, `prefill`, `decode`, `head` and `request`: model calls", unit="s"
    )

    __table_args__ = (Index(None, "job_id", "id"),)


# Of a job: sums, which have a row for each key.
SUMS = (PhaseSums, StepSums, PastLengthSums, MinuteSums, MeasureCounts, FailureCounts, FlagCounts)
