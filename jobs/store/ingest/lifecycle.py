"""The life of an ingest: a job is begun, filled batch by batch, and finished or abandoned.

Every transaction checks how many documents are written (`jobs.ingested`), so that when two submits fill one job, only
one writes each batch, and a killed submit continues where it stopped.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from sqlalchemy import Connection, case, delete, distinct, func, insert, null, or_, select, true, update

from jobs.documents import LineName, Record
from jobs.errors import CorpusError, LimitReached, NotFoundError, SpecError
from jobs.spec import JobSpec
from jobs.stage import CORPUS, FilterSpec, Stage
from jobs.store.connection.dialect import insert_or_ignore
from jobs.store.database import Database
from jobs.store.glossaries import store_glossaries
from jobs.store.ingest.bulk_insert import enlarge_cache, insert_batch, restore_cache
from jobs.store.queue.chains import chain_of, skip_rejected
from jobs.store.queue.completion import close_shards
from jobs.store.queue.deltas import fold_job
from jobs.store.queue.job_counters import lock_counters
from jobs.store.queue.job_events import announce_end
from jobs.store.queue.job_providers import insert_providers
from jobs.store.rollups import FAILURES, forget_failures
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ENDED_STATES, DocumentStatus, JobState
from jobs.store.schema.tables import Job, JobCounts, JobTurn, Shard
from jobs.store.schema.token_table import AccessToken
from jobs.text.formatting import counted
from jobs.tolerance import MAX_REJECTED, Tolerance

ROWS_PER_DELETE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The job, and the later stages of its chain, that a submit asks for."""

    spec: JobSpec
    content_key: Callable[[int], str]  # of the first job (0) and of further jobs (1, 2, ...) of this corpus
    source: str
    source_is_file: bool  # only then two submits from the same source are meant to read the same corpus
    corpus_digest: str
    reading: str  # JSON: how the corpus is read
    name: str | None
    priority: int
    queue: str  # that a worker must serve to process the job
    again: bool  # make another job where one exists
    stages: Sequence[Stage] = ()  # of the chain, behind this job
    owner: str | None = None  # who submits it
    notify: Sequence[str] = ()  # addresses that get a webhook when it ends
    max_open: int | None = None  # jobs of this owner that may be open at a time, this one included; None: any number


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
                _refuse_changed_source(connection, request)
                refuse_too_many(connection, request)
            take_name(connection, request.name, job_id)
            if job_id is None:
                made = _make(connection, request, key)
                if made is None:
                    continue  # another submit made it meanwhile: look again
                return _read(connection, made), True
            if state != JobState.FAILED:
                unnamed = update(Job).where(Job.id == job_id, Job.name.is_(None))
                connection.execute(unnamed.values(name=request.name))
                _notify_too(connection, request, job_id)
                return _read(connection, job_id), False
            chain = chain_of(connection, job_id)
            if not any(_has_documents(connection, stage_id) for stage_id in chain):
                for stage_id in chain:
                    _start_anew(connection, request, stage_id)
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
        connection.execute(update(JobCounts).where(JobCounts.job_id.in_(chain)).values(_no_counts()))
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


def _refuse_changed_source(connection: Connection, request: JobRequest) -> None:
    if not request.source_is_file:
        return
    other = connection.scalar(
        select(Job.id).where(
            Job.state == JobState.INGESTING,
            Job.source == request.source,
            Job.options_digest == request.spec.digest(),
            Job.corpus_digest != request.corpus_digest,
        )
    )
    if other is not None:
        raise CorpusError(
            f"{request.source} has changed since job {other} began to read it, and that job has not read it to the "
            f"end; cancel that job (kvjobs cancel {other}) or restore the file, then submit again"
        )


def refuse_too_many(connection: Connection, request: JobRequest) -> None:
    """Count the owner's open jobs, a chain as one. Two submits at once see one another by the lock on the token."""
    if request.max_open is None:
        return
    of_owner = (AccessToken.name == request.owner) & AccessToken.revoked_at.is_(None)
    connection.execute(select(AccessToken.id).where(of_owner).with_for_update())
    open_jobs = (Job.owner == request.owner) & Job.state.not_in(ENDED_STATES)
    number = connection.scalar(select(func.count(distinct(func.coalesce(Job.chain, Job.id)))).where(open_jobs)) or 0
    if number >= request.max_open:
        raise LimitReached(
            f"{request.owner} has {counted(number, 'open job')}, and its token allows {request.max_open}; wait until "
            "one has ended, or cancel one"
        )


def take_name(connection: Connection, name: str | None, job_id: int | None) -> None:
    """Free the name: a job that ended before its corpus was read to the end loses it. Raises SpecError where another
    job has the name."""
    if name is None:
        return
    owner = connection.execute(
        select(Job.id, Job.state, Job.ingested_at).where(Job.name == name, Job.id.is_distinct_from(job_id))
    ).one_or_none()
    if owner is None:
        return
    if owner.ingested_at is None and owner.state in (JobState.FAILED, JobState.CANCELLED):
        connection.execute(update(Job).where(Job.id == owner.id).values(name=null()))
        return
    raise SpecError(f"the name {name!r} belongs to job {owner.id}; choose another with --name")


def _make(connection: Connection, request: JobRequest, key: str) -> int | None:
    """Insert the job and the stages behind it; its number, or None where another job has taken its key or its name
    meanwhile."""
    job_id = insert_job(connection, request, request.spec, key, {"name": request.name})
    if job_id is not None and request.stages:
        connection.execute(update(Job).where(Job.id == job_id).values(chain=job_id, stage=1, reads=CORPUS))
        for number, stage in enumerate(request.stages, start=2):
            in_chain = {"chain": job_id, "stage": number, "reads": stage.reads}
            key_of_stage = hashlib.sha256(f"{key}\n{number}".encode()).hexdigest()
            insert_job(connection, request, stage.spec, key_of_stage, in_chain)
    return job_id


def insert_job(
    connection: Connection, request: JobRequest, spec: JobSpec | FilterSpec, key: str, more: Mapping[str, Any]
) -> int | None:
    job_id: int | None = connection.execute(
        insert_or_ignore(connection, Job)
        .values(
            task=spec.task,
            model=spec.model,
            model_revision=spec.model_revision,
            options=spec.options_json(),
            options_digest=spec.digest(),
            providers=None if spec.providers.is_default else spec.providers.to_json(),
            content_key=key,
            source=request.source,
            corpus_digest=request.corpus_digest,
            reading=request.reading,
            state=JobState.INGESTING,
            priority=request.priority,
            queue=request.queue,
            owner=request.owner,
            notify=_notified(request),
            paused=False,
            ingested=0,
            created_at=db_time(),
            **more,
        )
        .returning(Job.id)
    ).scalar()
    if job_id is not None:
        if isinstance(spec, JobSpec):
            store_glossaries(connection, spec.options)
        connection.execute(insert(JobCounts).values(job_id=job_id, **_no_counts()))
        connection.execute(insert(JobTurn).values(job_id=job_id))
        insert_providers(connection, job_id, spec)
    return job_id


def _start_anew(connection: Connection, request: JobRequest, job_id: int) -> None:
    connection.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(
            name=case((func.coalesce(Job.stage, 1) == 1, request.name)),
            source=request.source,
            priority=request.priority,
            queue=request.queue,
            owner=request.owner,
            notify=_notified(request),
            state=JobState.INGESTING,
            paused=False,
            paused_at=null(),
            reason=null(),
            ingested=0,
            ingest_digest=null(),
            created_at=db_time(),
            finished_at=null(),
        )
    )


def _notified(request: JobRequest) -> str | None:
    """The addresses as they are stored."""
    return json.dumps(list(request.notify)) if request.notify else None


def _notify_too(connection: Connection, request: JobRequest, job_id: int) -> None:
    """Who submits a job that there is already is told of its end as well, unless it is over."""
    known = json.loads(connection.scalar(select(Job.notify).where(Job.id == job_id)) or "[]")
    if more := [url for url in request.notify if url not in known]:
        of_chain = Job.id.in_(chain_of(connection, job_id))
        connection.execute(update(Job).where(of_chain).values(notify=json.dumps([*known, *more])))


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


def _no_counts() -> dict[str, int]:
    return {column.name: 0 for column in JobCounts.__table__.columns if column.name != "job_id"}


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
