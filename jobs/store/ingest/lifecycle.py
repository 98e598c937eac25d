"""The life of an ingest: a job is begun, filled batch by batch, and finished or abandoned.

Every transaction checks how many documents are written (`jobs.ingested`), so that when two submits fill one job, only
one writes each batch, and a killed submit continues where it stopped.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from sqlalchemy import Connection, delete, func, null, or_, select, true, update

from jobs.documents import LineName, Record
from jobs.errors import NotFoundError
from jobs.store.database import Database
from jobs.store.ingest.bulk_insert import enlarge_cache, insert_batch, restore_cache
from jobs.store.ingest.new_job import (
    JobRequest,
    make_job,
    no_counts,
    notify_too,
    refuse_changed_source,
    refuse_too_many,
    start_anew,
    take_name,
)
from jobs.store.queue.chains import chain_of, skip_rejected
from jobs.store.queue.completion import close_shards
from jobs.store.queue.deltas import fold_job
from jobs.store.queue.job_counters import lock_counters
from jobs.store.queue.job_events import announce_end
from jobs.store.rollups import FAILURES, forget_failures
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import DocumentStatus, JobState
from jobs.store.schema.tables import Job, JobCounts, Shard
from jobs.tolerance import MAX_REJECTED, Tolerance

ROWS_PER_DELETE = 20_000


@dataclass(frozen=True, slots=True)
class IngestBatch:
    """Consecutive shards, as many as one transaction writes."""

    shards: list[list[Record]]  # none is empty

    @property
    def start(self) -> int:
        return self.shards[0][0].position

    @property
    def stop(self) -> int:
        return self.shards[-1][-1].position + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedJob:
    """A job, and how far its ingest has come."""

    job_id: int
    name: str | None
    state: JobState
    is_cancelling: bool  # cancel was requested; workers may still be computing batches
    reason: str | None
    ingested: int
    ingest_digest: str | None  # sha256 over the documents that are written
    options_digest: str
    documents: int
    rejected: int
    shards: int
    estimated_tokens: int


def begin(database: Database, request: JobRequest) -> tuple[IngestedJob, bool]:
    """The job of this request, and whether this call made it. A job whose ingest was abandoned starts from the
    beginning. Raises CorpusError where a file has changed since another job began to read it, SpecError where the name
    belongs to another job, LimitReached where the owner has as many open jobs as it may."""
    while True:
        with database.writing() as connection:
            key, job_id, state = _find(connection, request)
            if job_id is None or state == JobState.FAILED:
                refuse_changed_source(connection, request)
                refuse_too_many(connection, request)
            take_name(connection, request.name, job_id)
            if job_id is None:
                made = make_job(connection, request, key)
                if made is None:
                    continue  # another submit made it meanwhile: look again
                return _read(connection, made), True
            if state != JobState.FAILED:
                unnamed = update(Job).where(Job.id == job_id, Job.name.is_(None))
                connection.execute(unnamed.values(name=request.name))
                notify_too(connection, request, job_id)
                return _read(connection, job_id), False
            chain = chain_of(connection, job_id)
            if not any(_has_documents(connection, stage_id) for stage_id in chain):
                for stage_id in chain:
                    start_anew(connection, request, stage_id)
                return _read(connection, job_id), True
        for stage_id in chain:
            _remove_documents(database, stage_id)


def add_batch(
    database: Database,
    job_id: int,
    batch: IngestBatch,
    before: str | None,
    digest: str,
    line_name: LineName | None = None,
) -> IngestedJob:
    """Write the documents and shards of a batch if it is the job's next one; the job as it is afterwards. `before`,
    `digest`: sha256 over all documents up to the start and to the end of this batch: behind others it is not written.
    `line_name` names a line of the corpus for people."""
    with database.writing() as connection:
        enlarge_cache(connection)
        is_next = (Job.id == job_id) & (Job.state == JobState.INGESTING) & (Job.ingested == batch.start)
        is_next &= Job.ingest_digest.is_not_distinct_from(before)
        if (
            connection.execute(update(Job).where(is_next).values(ingested=batch.stop, ingest_digest=digest)).rowcount
            == 1
        ):
            insert_batch(connection, job_id, batch.shards, line_name)
        return _read(connection, job_id)


def finish(database: Database, job: IngestedJob, max_rejected: Tolerance | None = None) -> IngestedJob:
    """Make the job visible to workers if all its batches are written, with the stages of its chain. It is done at once
    if it has no open shard. `max_rejected` is stored, also where the job was visible before."""
    with database.writing() as connection:
        restore_cache(connection)
        chain = chain_of(connection, job.job_id)
        lock_counters(connection, job.job_id)
        if max_rejected is not None:
            _store_tolerance(connection, chain, max_rejected)
        values = {"state": JobState.RUNNING, "ingested_at": db_time()}
        whole = (Job.id == job.job_id) & (Job.state == JobState.INGESTING) & (Job.ingested == job.ingested)
        if connection.execute(update(Job).where(whole).values(values)).rowcount:
            later = Job.id.in_(chain[1:]) & (Job.state == JobState.INGESTING)
            connection.execute(update(Job).where(later).values(values))
            skip_rejected(connection, chain)
            close_shards(connection, job.job_id, 0)
        return _read(connection, job.job_id)


def abandon(database: Database, job_id: int, reason: str, *, if_written: Sequence[str | None] = ()) -> None:
    """Fail an ingest: the state of the job and of its chain is `failed`, its documents are deleted, its name is free.
    Does nothing to a job that is not `ingesting`. `if_written`: nor to one whose `ingest_digest` is none of these,
    since another submit writes it."""
    with database.writing() as connection:
        chain = chain_of(connection, job_id)
        unfinished = Job.state == JobState.INGESTING
        ours = or_(*map(Job.ingest_digest.is_not_distinct_from, if_written)) if if_written else true()
        values = {"state": JobState.FAILED, "reason": reason, "name": null(), "finished_at": db_time()}
        if connection.execute(update(Job).where(Job.id == job_id, unfinished, ours).values(values)).rowcount == 0:
            return
        connection.execute(update(Job).where(Job.id.in_(chain), unfinished).values(values))
        connection.execute(delete(Shard).where(Shard.job_id.in_(chain)))
        for stage_id in chain:
            lock_counters(connection, stage_id)
            fold_job(connection, stage_id)  # of a job that was cancelled and goes on to be read
        connection.execute(update(JobCounts).where(JobCounts.job_id.in_(chain)).values(no_counts()))
        for stage_id in chain:
            forget_failures(connection, stage_id, *FAILURES)
        announce_end(connection, chain[-1])
    for stage_id in chain:
        _remove_documents(database, stage_id)


def remove(database: Database, job_id: int, *, if_written: Sequence[str | None] = ()) -> None:
    """Fail an ingest as `abandon` does, and delete the job with its chain."""
    abandon(database, job_id, "removed", if_written=if_written)
    with database.writing() as connection:
        chain = chain_of(connection, job_id)
        connection.execute(delete(Job).where(Job.id.in_(chain), Job.state == JobState.FAILED))


def first_rejected(database: Database, job_id: int, limit: int) -> list[tuple[int, str]]:
    """Line number and reason of the job's first rejected documents, at most `limit`."""
    document = tables.Document
    with database.reading() as connection:
        rows = connection.execute(
            select(document.line, document.error)
            .where(document.job_id == job_id, document.status == DocumentStatus.REJECTED)
            .order_by(document.position)
            .limit(limit)
        )
        return [(line, error or "") for line, error in rows]


def _store_tolerance(connection: Connection, chain: Sequence[int], max_rejected: Tolerance) -> None:
    """Store `max_rejected` in `jobs.reading`, of all jobs of the chain; a job of an older version has no `reading`."""
    reading = connection.scalar(select(Job.reading).where(Job.id == chain[0]))
    if reading is not None:
        values = json.loads(reading) | {MAX_REJECTED: str(max_rejected)}
        connection.execute(update(Job).where(Job.id.in_(chain)).values(reading=json.dumps(values)))


def _find(connection: Connection, request: JobRequest) -> tuple[str, int | None, str | None]:
    """The content key to use, and number and state of the job that has it, if any. With `again` it is the first key
    without a complete job, so that a killed submit with `again` is continued too."""
    for number in count():
        key = request.content_key(number)
        job = select(Job.id, Job.state).where(Job.content_key == key).with_for_update()
        row = connection.execute(job).one_or_none()
        if row is None:
            return key, None, None
        if not request.again or row.state in (JobState.INGESTING, JobState.FAILED):
            return key, row.id, row.state
    raise AssertionError


def _has_documents(connection: Connection, job_id: int) -> bool:
    return (
        connection.scalar(select(tables.Document.position).where(tables.Document.job_id == job_id).limit(1)) is not None
    )


def _remove_documents(database: Database, job_id: int) -> None:
    """Delete the documents of a failed job, in several transactions, so that no other waits long for the lock."""
    document = tables.Document
    while True:
        with database.writing() as connection:
            if connection.scalar(select(Job.state).where(Job.id == job_id)) != JobState.FAILED:
                return
            first = connection.scalar(select(func.min(document.position)).where(document.job_id == job_id))
            if first is None:
                return
            some = (document.job_id == job_id) & (document.position < first + ROWS_PER_DELETE)
            connection.execute(delete(document).where(some))


def _read(connection: Connection, job_id: int) -> IngestedJob:
    row = connection.execute(
        select(
            Job.id.label("job_id"),
            Job.name,
            Job.state,
            (Job.cancel_requested_at.is_not(None) & (Job.state == JobState.RUNNING)).label("is_cancelling"),
            Job.reason,
            Job.ingested,
            Job.ingest_digest,
            Job.options_digest,
            JobCounts.documents,
            JobCounts.rejected,
            JobCounts.shards,
            JobCounts.estimated_tokens,
        )
        .join(JobCounts, JobCounts.job_id == Job.id)
        .where(Job.id == job_id)
    ).one_or_none()
    if row is None:
        raise NotFoundError(f"job {job_id} was removed while its corpus was being read; submit it again")
    return IngestedJob(**{**row._mapping, "state": JobState(row.state), "is_cancelling": bool(row.is_cancelling)})
