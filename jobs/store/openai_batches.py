"""Batches of OpenAI's API: their rows, and the changes of their status.

    validating --its job is made--> in_progress --the job has ended--> finalizing --files written--> completed
        |                               |
        +--refused--> failed            +--asked--> cancelling --the job has ended, files written--> cancelled

A change names the status that it expects, so that of two processes one makes it.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, insert, select, update

from jobs.store.database import Database
from jobs.store.listed_rows import Page, on_page
from jobs.store.schema.clock import db_time
from jobs.store.schema.upload_tables import OpenAIBatch


class BatchStatus(enum.StrEnum):
    """The states of OpenAI's API. (`expired` is one, too: nothing expires here.)"""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


OPEN = (BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS, BatchStatus.FINALIZING, BatchStatus.CANCELLING)
READING = (BatchStatus.VALIDATING,)  # its file is still needed


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A batch; the columns are described in `OpenAIBatch`."""

    number: int
    id: str
    owner: str
    max_open: int | None
    input_file_id: str
    endpoint: str
    completion_window: str
    labels: str | None
    status: str
    errors: str | None
    model: str | None
    job_id: int | None
    output_file_id: str | None
    error_file_id: str | None
    created_at: datetime
    in_progress_at: datetime | None
    finalizing_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    cancelling_at: datetime | None
    cancelled_at: datetime | None
    num_requests: int | None
    num_completed: int | None
    num_failed: int | None
    input_tokens: int | None
    output_tokens: int | None


def add_batch(database: Database, **values: Any) -> StoredBatch:
    """Add a batch that is to be validated. `values`: of the columns."""
    with database.writing() as connection:
        row = {"status": BatchStatus.VALIDATING.value, "created_at": db_time(), **values}
        connection.execute(insert(OpenAIBatch).values(row))
        found = find_batch(connection, values["id"])
    assert found is not None
    return found


def find_batch(connection: Connection, batch_id: str) -> StoredBatch | None:
    """The batch of this id."""
    return next(iter(_batches(connection, select(OpenAIBatch).where(OpenAIBatch.id == batch_id))), None)


def batch_of_job(connection: Connection, job_id: int) -> StoredBatch | None:
    """The batch that a job answers."""
    return next(iter(_batches(connection, select(OpenAIBatch).where(OpenAIBatch.job_id == job_id))), None)


def open_batches(connection: Connection) -> Sequence[StoredBatch]:
    """Those that have not ended, the oldest first."""
    return _batches(connection, select(OpenAIBatch).where(OpenAIBatch.status.in_(OPEN)).order_by(OpenAIBatch.number))


def list_batches(connection: Connection, page: Page) -> Sequence[StoredBatch]:
    """A page of the batches of an owner, and one more where there are more."""
    return _batches(connection, on_page(select(OpenAIBatch), OpenAIBatch, page))


def change_batch(
    database: Database, batch_id: str, expected: Sequence[BatchStatus], status: BatchStatus | None = None, **values: Any
) -> bool:
    """Change a batch that has one of the expected states; whether it did. With a new `status`, the time of that is
    noted."""
    if status is not None:
        values |= {"status": status.value, f"{status.value}_at": db_time()}
    changed = update(OpenAIBatch).where(OpenAIBatch.id == batch_id, OpenAIBatch.status.in_(expected)).values(values)
    with database.writing() as connection:
        return connection.execute(changed).rowcount == 1


def _batches(connection: Connection, statement: Select[Any]) -> list[StoredBatch]:
    columns = (getattr(OpenAIBatch, field.name) for field in fields(StoredBatch))
    return [StoredBatch(**row) for row in connection.execute(statement.with_only_columns(*columns)).mappings()]
