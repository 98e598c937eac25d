"""What recorded batches add to the sums of their jobs, until it is folded into them."""

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, BigId, column


class Delta(Base):
    """On PostgreSQL, what a recorded batch adds to the counters and rollups of its job: appended, so that no recorder
    waits for another, and folded into them about once a second. The views add both. Always empty on SQLite."""

    __tablename__ = "deltas"

    id: Mapped[int] = column("number of the row", BigId, unit="id", primary_key=True)
    job_id: Mapped[int] = column("its job", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id")
    succeeded: Mapped[int] = column("added to `job_counts`", unit="documents")
    failed: Mapped[int] = column("added to `job_counts`", unit="documents")
    quarantined: Mapped[int] = column("added to `job_counts`", unit="documents")
    estimated_done: Mapped[int] = column("added to `job_counts`", unit="tokens")
    source_tokens: Mapped[int] = column("added to `job_counts`", unit="tokens")
    target_tokens: Mapped[int] = column("added to `job_counts`", unit="tokens")
    segments: Mapped[int] = column("added to `job_counts`", unit="segments")
    segments_reused: Mapped[int] = column("added to `job_counts`", unit="segments")
    documents_reused: Mapped[int] = column("added to `job_counts`", unit="documents")
    shards_open: Mapped[int] = column("added to `job_counts`: -1 where the shard ended", unit="shards")
    sums: Mapped[str] = column("rows that are added to those of rollups, JSON: a list of objects by name of the table")

    __table_args__ = (Index(None, "job_id", "id"),)
