"""Files that programs sent: their rows. (Their bytes lie below `uploads` in the home of the dashboard.)"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, delete, select

from jobs.store.connection.dialect import insert_or_ignore
from jobs.store.database import Database
from jobs.store.listed_rows import Page, on_page
from jobs.store.openai_batches import READING
from jobs.store.schema.clock import db_time
from jobs.store.schema.upload_tables import OpenAIBatch, UploadedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file; the columns are described in `UploadedFile`."""

    number: int
    id: str
    owner: str
    filename: str
    purpose: str
    num_bytes: int
    created_at: datetime
    expires_at: datetime | None


def add_file(
    database: Database,
    *,
    id: str,
    owner: str,
    filename: str,
    purpose: str,
    num_bytes: int,
    expires_after_s: float | None = None,
) -> StoredFile:
    """Add the row of a file whose bytes are there; one that has a row keeps it."""
    values: dict[str, Any] = {"id": id, "owner": owner, "filename": filename, "purpose": purpose}
    values |= {"num_bytes": num_bytes, "created_at": db_time()}
    values |= {"expires_at": None if expires_after_s is None else db_time(expires_after_s)}
    with database.writing() as connection:
        connection.execute(insert_or_ignore(connection, UploadedFile).values(values))
        found = find_file(connection, id)
    assert found is not None
    return found


def find_file(connection: Connection, file_id: str) -> StoredFile | None:
    """The file of this id."""
    return next(iter(_files(connection, select(UploadedFile).where(UploadedFile.id == file_id))), None)


def list_files(connection: Connection, page: Page, purpose: str | None = None) -> Sequence[StoredFile]:
    """A page of the files of an owner, and one more where there are more."""
    statement = on_page(select(UploadedFile), UploadedFile, page)
    if purpose is not None:
        statement = statement.where(UploadedFile.purpose == purpose)
    return _files(connection, statement)


def remove_file(database: Database, file_id: str) -> bool:
    """Delete the row of a file; False: a batch has still to read it."""
    with database.writing() as connection:
        reading = select(OpenAIBatch.id).where(OpenAIBatch.input_file_id == file_id, OpenAIBatch.status.in_(READING))
        if connection.execute(reading.limit(1)).first() is not None:
            return False
        connection.execute(delete(UploadedFile).where(UploadedFile.id == file_id))
        return True


def expired_files(connection: Connection) -> list[str]:
    """The ids of files whose time is over."""
    over = select(UploadedFile.id).where(UploadedFile.expires_at < db_time())
    return list(connection.execute(over).scalars())


def known_ids(connection: Connection, ids: Collection[str]) -> set[str]:
    """Those of these ids that a file has."""
    return set(connection.execute(select(UploadedFile.id).where(UploadedFile.id.in_(ids))).scalars())


def _files(connection: Connection, statement: Select[Any]) -> list[StoredFile]:
    columns = (getattr(UploadedFile, field.name) for field in fields(StoredFile))
    return [StoredFile(**row) for row in connection.execute(statement.with_only_columns(*columns)).mappings()]
