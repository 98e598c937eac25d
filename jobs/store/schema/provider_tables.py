"""The providers of each job: what each of them did, and when the answers came from another one."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, BigId, column


class JobProvider(Base):
    """A provider of a job (`--providers`), and what it did. Changed in the transaction that inserts or ends what it
    counts. Documents that no provider answered are in no row: they failed, or are rankings of the provider `none`."""

    __tablename__ = "job_providers"

    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id", primary_key=True)
    place: Mapped[int] = column("in the order in which they are asked, from 0", unit="position", primary_key=True)
    provider: Mapped[str] = column("its name, such as `onnx` or `openai`")
    model: Mapped[str] = column("the model's name there")
    skipped: Mapped[str | None] = column("why it cannot do the job at all; null: it can")
    documents: Mapped[int] = column("with a result of it", unit="documents")
    failed: Mapped[int] = column(
        "that it found bad, so that no other provider was asked, and those that were quarantined; nothing is taken "
        "away when a document is retried",
        unit="documents",
    )
    handed_over: Mapped[int] = column(
        "that it did not answer; a document that is computed again after a crash or a `retry` counts again",
        unit="documents",
    )
    requests: Mapped[int] = column("HTTP requests to its server, as far as they were recorded", unit="requests")
    prompt_tokens: Mapped[int] = column("that its server says it has read", unit="tokens")
    completion_tokens: Mapped[int] = column("that its server says it has generated", unit="tokens")
    cost: Mapped[float] = column("by the price in the settings, in its currency; 0 without a price", unit="money")

    __table_args__ = ({"sqlite_with_rowid": False},)


class HandoverCounts(Base):
    """Why a provider of a job did not answer documents: `job_providers.handed_over` by reason."""

    __tablename__ = "handover_counts"

    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id", primary_key=True)
    provider: Mapped[str] = column("that did not answer", primary_key=True)
    code: Mapped[str] = column(
        "short, stable code of the reason (`jobs.providers.Reason`), such as `timeout`; `declined`: it works, and "
        "cannot answer these documents",
        primary_key=True,
    )
    documents: Mapped[int] = column("not answered for this reason", unit="documents")
    reason: Mapped[str] = column("in a sentence, that of the first of them")

    __table_args__ = ({"sqlite_with_rowid": False},)


class ProviderChange(Base):
    """Append-only log of the moments at which a provider failed a lane, so that its answers came from another one, or
    answered it again."""

    __tablename__ = "provider_changes"

    id: Mapped[int] = column("number of the row, in the order of writing", BigId, unit="id", primary_key=True)
    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id")
    shard_id: Mapped[int] = column("shard of the batch in which it happened", unit="id")
    epoch: Mapped[int] = column("lease epoch", unit="epoch")
    worker_id: Mapped[int] = column("its worker", unit="id")
    lane: Mapped[int] = column("number of the lane in that worker, from 0", unit="id")
    at: Mapped[datetime] = column("when the batch was recorded")
    provider: Mapped[str] = column("that failed, or with the code `recovered` answers again")
    next_provider: Mapped[str | None] = column("that was asked instead; null: none was left, or none is needed")
    code: Mapped[str] = column("short, stable code of the reason (`jobs.providers.Reason`), such as `timeout`")
    reason: Mapped[str] = column("the reason in a sentence")
    documents: Mapped[int] = column("of the batch that it did not answer", unit="documents")

    __table_args__ = (Index(None, "job_id", "id"),)
