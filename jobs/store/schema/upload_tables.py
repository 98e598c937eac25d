"""Files that programs sent, and the batches of OpenAI's API that are made of them."""

from datetime import datetime

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.orm import Mapped

from jobs.store.schema.declarative import Base, BigId, column


class UploadedFile(Base):
    """A file of `/v1/files`: one that was sent, or the output of a batch. Its bytes lie below `uploads` in the home of
    the dashboard that received it."""

    __tablename__ = "uploaded_files"

    number: Mapped[int] = column("in the order of arrival", BigId, unit="id", primary_key=True)
    id: Mapped[str] = column("by which it is asked for, and the name of the file that has its bytes")
    owner: Mapped[str] = column("who sent it: as in `jobs`")
    filename: Mapped[str] = column("as the sender names it; nothing on this machine has that name")
    purpose: Mapped[str] = column("`batch`, `batch_output`, or another word of OpenAI's")
    num_bytes: Mapped[int] = column("its size", unit="bytes")
    created_at: Mapped[datetime] = column("when all of it had come")
    expires_at: Mapped[datetime | None] = column("when it is deleted; null: never")

    __table_args__ = (UniqueConstraint("id"), Index(None, "owner", "number"))


class OpenAIBatch(Base):
    """A batch of `/v1/batches`: the requests of a file, which a job answers. The row stays when the job is pruned."""

    __tablename__ = "openai_batches"

    number: Mapped[int] = column("in the order of arrival", BigId, unit="id", primary_key=True)
    id: Mapped[str] = column("by which it is asked for, and the name of its job")
    owner: Mapped[str] = column("who asked for it: as in `jobs`")
    max_open: Mapped[int | None] = column("open jobs that the owner's token allowed; null: any number", unit="jobs")
    input_file_id: Mapped[str] = column("the file with its requests")
    endpoint: Mapped[str] = column("the address that its requests name")
    completion_window: Mapped[str] = column("as it was asked for; nothing depends on it")
    labels: Mapped[str | None] = column("its `metadata`, a JSON object; null: none was given")
    status: Mapped[str] = column(
        "`validating`, `in_progress`, `finalizing`, `completed`, `failed`, `cancelling` or `cancelled`"
    )
    errors: Mapped[str | None] = column("why it failed, a JSON list of OpenAI's error objects")
    model: Mapped[str | None] = column("that answers the requests; null until they were read")
    job_id: Mapped[int | None] = column("its job; null until it has one", unit="id")
    output_file_id: Mapped[str | None] = column(
        "answers, a line each; null until they are written, and where there are none"
    )
    error_file_id: Mapped[str | None] = column("requests without an answer; likewise")
    created_at: Mapped[datetime] = column("when it was asked for")
    in_progress_at: Mapped[datetime | None] = column("when its requests had been read")
    finalizing_at: Mapped[datetime | None] = column("when its job had ended")
    completed_at: Mapped[datetime | None] = column("when its files had been written")
    failed_at: Mapped[datetime | None] = column("when it had failed")
    cancelling_at: Mapped[datetime | None] = column("when its end was asked for")
    cancelled_at: Mapped[datetime | None] = column("when it had ended on request")
    num_requests: Mapped[int | None] = column("in the file; this and the next are null until the end", unit="requests")
    num_completed: Mapped[int | None] = column("that have an answer", unit="requests")
    num_failed: Mapped[int | None] = column("that have none", unit="requests")
    input_tokens: Mapped[int | None] = column("read for the answers", unit="tokens")
    output_tokens: Mapped[int | None] = column("written in the answers", unit="tokens")

    __table_args__ = (
        UniqueConstraint("id"),
        Index(None, "owner", "number"),
        Index(None, "status"),
        Index(None, "job_id"),
    )
