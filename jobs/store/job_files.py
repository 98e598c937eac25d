"""The files of a job whose corpus is files: stored while it is submitted, read when they are written with their
translations."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import zstandard
from sqlalchemy import Connection, delete, func, insert, select

from jobs.store.database import Database
from jobs.store.schema.file_table import JobFile
from jobs.store.schema.results import results_of
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Document, Job

MOST_STORED = 1 << 24  # compressed bytes of a file that are kept in its row
FILES_AT_ONCE, BYTES_AT_ONCE = 200, 1 << 22  # in a transaction


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


def store_files(
    database: Database, job_id: int, files: Iterable[tuple[StoredFile, bytes | None]], *, is_only_copy: bool = False
) -> None:
    """Store the files of a job whose corpus is being read, with their bytes where they are given and either of at most
    `MOST_STORED` or the only copy that there will be; those that it has already are written again. A transaction has so
    many that no other writer waits long."""
    compressor = zstandard.ZstdCompressor(level=9)
    rows: list[dict[str, Any]] = []
    num_bytes = 0
    for file, content in files:
        packed = None if content is None else compressor.compress(content)
        if packed is not None and len(packed) > MOST_STORED and not is_only_copy:
            packed = None
        rows.append({"job_id": job_id, "content": packed, **{name: getattr(file, name) for name in _COLUMNS}})
        num_bytes += len(packed or b"")
        if len(rows) == FILES_AT_ONCE or num_bytes >= BYTES_AT_ONCE:
            _write(database, job_id, rows)
            rows, num_bytes = [], 0
    _write(database, job_id, rows)


def _write(database: Database, job_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    with database.writing() as connection:
        if not rows or connection.scalar(select(Job.state).where(Job.id == job_id)) != JobState.INGESTING:
            return  # another submit of the same files has finished it
        numbers = [row["number"] for row in rows]
        connection.execute(delete(JobFile).where(JobFile.job_id == job_id, JobFile.number.in_(numbers)))
        connection.execute(insert(JobFile), rows)


def files_of(connection: Connection, job_id: int, path: str | None = None) -> Sequence[StoredFile]:
    """The files of a job, in the order of the corpus, without their bytes; with `path` the one that has it, if any."""
    found = select(*(getattr(JobFile, name) for name in _COLUMNS)).where(JobFile.job_id == job_id)
    if path is not None:
        found = found.where(JobFile.path == path)
    return [StoredFile(**row._mapping) for row in connection.execute(found.order_by(JobFile.number))]


class FileState(enum.StrEnum):
    """How far a file has come."""

    COPIED = "copied"  # it has no texts
    REJECTED = "rejected"  # it cannot be read
    WAITING = "waiting"  # units of it have not ended
    PARTIAL = "partial"  # all have ended, and some without a result
    DONE = "done"


def file_at(connection: Connection, job_id: int, position: int) -> StoredFile | None:
    """The file of a job that a document at this position is a unit of; None for a job of another corpus."""
    found = select(*(getattr(JobFile, name) for name in _COLUMNS)).where(
        JobFile.job_id == job_id, JobFile.first <= position, JobFile.first + JobFile.documents > position
    )
    row = connection.execute(found.limit(1)).one_or_none()
    return None if row is None else StoredFile(**row._mapping)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file in a list, and how far its units have come."""

    number: int
    path: str
    num_bytes: int
    documents: int
    succeeded: int  # of its documents, with a result
    failed: int  # that ended without one
    translated: bool
    error: str | None

    @property
    def state(self) -> FileState:
        if not self.translated:
            return FileState.COPIED
        if self.error is not None:
            return FileState.REJECTED
        if self.succeeded + self.failed < self.documents:
            return FileState.WAITING
        return FileState.PARTIAL if self.failed else FileState.DONE

    def as_object(self) -> dict[str, Any]:
        """The file for a program."""
        return {
            "path": self.path,
            "state": self.state.value,
            "num_bytes": self.num_bytes,
            "units": 0 if self.error is not None else self.documents,
            "translated": self.succeeded,
            "error": self.error,
        }


def list_files(
    connection: Connection, job_id: int, of_job: int, limit: int, *, after: int = -1
) -> Sequence[ListedFile]:
    """The first files of the job `of_job`, which is the first of its chain, with the results of a job; those behind the
    file with the number `after`."""
    result = results_of(connection, job_id)
    last = JobFile.first + JobFile.documents - 1
    in_file = (result.job_id == job_id) & result.position.between(JobFile.first, last)
    without = (
        (Document.job_id == job_id) & Document.position.between(JobFile.first, last) & Document.status.is_not(None)
    )
    found = select(
        *(JobFile.number, JobFile.path, JobFile.num_bytes, JobFile.documents),
        select(func.count()).select_from(result).where(in_file).scalar_subquery(),
        select(func.count()).select_from(Document).where(without).scalar_subquery(),
        *(JobFile.translated, JobFile.error),
    ).where(JobFile.job_id == of_job, JobFile.number > after)
    return [ListedFile(*row) for row in connection.execute(found.order_by(JobFile.number).limit(limit))]


def count_files(connection: Connection, job_id: int) -> int:
    """How many files a job has."""
    return connection.scalar(select(func.count()).select_from(JobFile).where(JobFile.job_id == job_id)) or 0


def content_of(connection: Connection, job_id: int, number: int) -> bytes | None:
    """The bytes of a file; None where its row does not have them."""
    same = (JobFile.job_id == job_id) & (JobFile.number == number)
    packed = connection.scalar(select(JobFile.content).where(same))
    return None if packed is None else zstandard.ZstdDecompressor().decompress(packed)


_COLUMNS = [field.name for field in fields(StoredFile)]
