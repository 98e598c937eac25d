"""The files of a job whose corpus is files: stored while it is submitted, read when they are written with their
translations."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import zstandard
from sqlalchemy import Connection, delete, insert, select

from jobs.store.database import Database
from jobs.store.schema.file_table import JobFile
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Job

MOST_STORED = 1 << 24  # compressed bytes of a file that are kept in its row


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file; the columns are described in `JobFile`."""

    number: int
    path: str
    digest: str
    num_bytes: int
    first: int
    documents: int
    translated: bool
    error: str | None


def store_files(database: Database, job_id: int, files: Iterable[tuple[StoredFile, bytes | None]]) -> None:
    """Store the files of a job whose corpus is being read, with their bytes where they are given; those that it has
    already are written again. Each has a transaction of its own, so that no other writer waits long."""
    compressor = zstandard.ZstdCompressor(level=9)
    for file, content in files:
        packed = None if content is None else compressor.compress(content)
        if packed is not None and len(packed) > MOST_STORED:
            packed = None
        values = {name: getattr(file, name) for name in _COLUMNS}
        with database.writing() as connection:
            if connection.scalar(select(Job.state).where(Job.id == job_id)) != JobState.INGESTING:
                return  # another submit of the same files has finished it
            same = (JobFile.job_id == job_id) & (JobFile.number == file.number)
            connection.execute(delete(JobFile).where(same))
            connection.execute(insert(JobFile).values(job_id=job_id, content=packed, **values))


def files_of(connection: Connection, job_id: int) -> Sequence[StoredFile]:
    """The files of a job, in the order of the corpus, without their bytes."""
    found = select(*(getattr(JobFile, name) for name in _COLUMNS)).where(JobFile.job_id == job_id)
    return [StoredFile(**row._mapping) for row in connection.execute(found.order_by(JobFile.number))]


def content_of(connection: Connection, job_id: int, number: int) -> bytes | None:
    """The bytes of a file; None where its row does not have them."""
    same = (JobFile.job_id == job_id) & (JobFile.number == number)
    packed = connection.scalar(select(JobFile.content).where(same))
    return None if packed is None else zstandard.ZstdDecompressor().decompress(packed)


_COLUMNS = [field.name for field in fields(StoredFile)]
