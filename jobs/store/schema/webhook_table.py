"""What is sent to whom when a job has ended."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, BigId, column

IS_DUE = text("next_try_at IS NOT NULL")  # some day


class WebhookDelivery(Base):
    """An event of a job, and its delivery to one address. It is written in the transaction that ends the job (the last
    stage of a chain), so that no event is lost; it may be sent more than once, with the same `message_id`."""

    __tablename__ = "webhook_deliveries"

    id: Mapped[int] = column("number of the delivery, in the order of the events", BigId, unit="id", primary_key=True)
    job_id: Mapped[int] = column("the job; of a chain its first", ForeignKey("jobs.id", ondelete="CASCADE"), unit="id")
    message_id: Mapped[str] = column("the header `webhook-id`, the same each time that it is sent")
    event: Mapped[str] = column("`job.done`, `job.cancelled` or `job.failed`")
    payload: Mapped[str] = column("what is sent, JSON: states, counts and times, no text of a document")
    url: Mapped[str] = column("where it is sent")
    created_at: Mapped[datetime] = column("when the job ended")
    attempts: Mapped[int] = column("times that it was sent, or tried to be", unit="attempts")
    next_try_at: Mapped[datetime | None] = column(
        "when it is sent next, unless the attempt that runs succeeds; null: delivered, or given up"
    )
    delivered_at: Mapped[datetime | None] = column("when it was answered with a status of 200 to 299; null: not yet")
    last_status: Mapped[int | None] = column("HTTP status of the last answer; null: there was none", unit="status")
    last_error: Mapped[str | None] = column("why the last attempt failed, in a sentence; null where it did not")

    __table_args__ = (
        UniqueConstraint("message_id"),
        Index(None, "job_id", "id"),
        Index(None, "next_try_at", sqlite_where=IS_DUE, postgresql_where=IS_DUE),
    )
