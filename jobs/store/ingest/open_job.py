"""A job that stays open: begun without a document, and filled while workers process it (`jobs.store.jobs.close` ends
that).

An append is one transaction, which begins with the lock of the job's counters. So whoever appends at the same time
waits, positions have no gaps, and a job cannot be closed in between. Sending a document again is harmless: its id is
there, with the same text.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Row, bindparam, select, update

from jobs.documents import Appended, AppendState, Document, Reject, quoted
from jobs.errors import KeyTaken, NotFoundError, SpecError
from jobs.store.database import Database
from jobs.store.ingest.bulk_insert import insert_new
from jobs.store.ingest.new_job import JobRequest, insert_job, refuse_too_many, take_name
from jobs.store.ingest.rows_of_ids import rows_of_ids
from jobs.store.queue.batches import batch_limits
from jobs.store.queue.job_counters import wait_for_turn
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import JobState, ShardState
from jobs.store.schema.tables import Job, JobCounts, Shard
from jobs.system.failpoints import failpoint
from jobs.tasks.kind import Kind
from jobs.tasks.kinds import KINDS
from jobs.text.json_numbers import read_fields

SOURCE = "appended documents"  # of an open job, where another has the path of its corpus
OF_A_CORPUS = "job {job_id} was made of a corpus, so no document can be appended to it; open another job"
LARGEST_FIELDS = 4096  # characters of JSON
NO_CORPUS = hashlib.sha256().hexdigest()


@dataclass(frozen=True, slots=True)
class StoredJob:
    """What the row of an open job says, to read its documents by."""

    task: str
    model: str
    model_revision: str
    options: str  # JSON
    providers: str | None  # JSON
    reading: str  # JSON: how its documents are read
    is_open: bool


def begin_open(database: Database, request: JobRequest) -> tuple[int, bool]:
    """The number of the open job of this request, and whether this call made it; it is found by the content key 0.
    Raises KeyTaken where the job that has the key has other options or is read in another way, SpecError where the name
    belongs to another job, LimitReached where the owner has as many open jobs as it may."""
    key, digest = request.content_key(0), request.spec.digest()
    while True:
        with database.writing() as connection:
            found = select(Job.id, Job.options_digest, Job.reading).where(Job.content_key == key).with_for_update()
            job = connection.execute(found).one_or_none()
            take_name(connection, request.name, job.id if job else None)
            if job is None:
                refuse_too_many(connection, request)
                job_id = insert_job(connection, request, request.spec, key, {"name": request.name})
                if job_id is None:
                    continue  # another has made it meanwhile: look again
                visible = {"state": JobState.RUNNING, "ingested_at": db_time(), "is_open": True}
                connection.execute(update(Job).where(Job.id == job_id).values(visible))
                return job_id, True
            if (job.options_digest, job.reading) != (digest, request.reading):
                raise KeyTaken(
                    f"job {job.id} has this key with other options, or another version of its model; open it with the "
                    "options that it has, or choose another key"
                )
            unnamed = update(Job).where(Job.id == job.id, Job.name.is_(None))
            connection.execute(unnamed.values(name=request.name))
            return job.id, False


def read_open(database: Database, job_id: int) -> StoredJob:
    """A job that is open, or was. Raises NotFoundError where there is no such job, SpecError for a job of a corpus."""
    columns = (Job.task, Job.model, Job.model_revision, Job.options, Job.providers, Job.reading, Job.is_open)
    with database.reading() as connection:
        row = connection.execute(select(*columns, Job.closed_at).where(Job.id == job_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no job {job_id}; kvjobs ls lists the jobs")
    if not row.is_open and row.closed_at is None:
        raise SpecError(OF_A_CORPUS.format(job_id=job_id))
    own = row._asdict()
    del own["closed_at"]
    return StoredJob(**own)


def append(database: Database, job_id: int, shards: Iterable[Sequence[Document]]) -> list[Appended]:
    """Append documents, cut into shards, in one transaction: behind those that the job has, whatever their own
    positions. Those that it has already are left out. What came of each, in their order.

    Raises NotFoundError where there is no such job, SpecError where it is not open; then nothing is appended."""
    shards = list(shards)
    this = {"this_job": job_id}
    with database.writing() as connection:
        wait_for_turn(connection, job_id)
        position = connection.execute(LOCKED, this).scalar()
        task = _require_open(connection.execute(STATE, this).one_or_none(), job_id)
        ids = [document.external_id for shard in shards for document in shard]
        rows = rows_of_ids(connection, job_id, ids, "d.position, d.text, d.fields")
        there = {row.external_id: _Stored(row.position, row.text, row.fields) for row in rows}
        appended, new_shards = _place(shards, there, position or 0)
        if new_shards:
            last = connection.execute(LAST_READY, this).one_or_none()
            grows = last.id if last is not None and _may_grow(last, new_shards[0], KINDS[task]) else None
            insert_new(connection, job_id, new_shards, grows=grows)
        failpoint("before-append-commit")
    failpoint("after-append")
    return appended


# Made once, because making them takes longer than executing them; everybody who appends or records waits meanwhile.
_OF_JOB: BindParameter[int] = bindparam("this_job")
LOCKED = select(JobCounts.documents).where(JobCounts.job_id == _OF_JOB).with_for_update()  # as `lock_counters`
STATE = select(Job.is_open, Job.closed_at, Job.cancel_requested_at, Job.state, Job.task).where(Job.id == _OF_JOB)
LAST_READY = (
    select(Shard.id, Shard.start, Shard.stop, Shard.estimated_tokens, Shard.attempts)
    .where(Shard.job_id == _OF_JOB, Shard.state == ShardState.READY)
    .order_by(Shard.id.desc())
    .limit(1)
    # Whoever leases locks a shard before the counters, which are locked here: it is not waited for.
    .with_for_update(skip_locked=True)
)


def _may_grow(last: Row[*tuple[Any, ...]], new: Sequence[Document], kind: Kind) -> bool:
    """Whether these documents may join a ready shard: it ends where they begin, no worker has had it, and with them it
    is no more than a batch. So documents that come one by one, while all lanes are busy, are computed together."""
    if last.attempts or last.stop != new[0].position:
        return False
    limits = batch_limits(kind, 1)
    tokens = last.estimated_tokens + sum(document.estimated_tokens for document in new)
    is_batch = tokens <= limits.tokens and new[-1].position + 1 - last.start <= limits.documents
    # A worker has a shard in memory, with the other fields of its documents.
    return is_batch and all(len(document.fields or "") <= LARGEST_FIELDS for document in new)


class _Stored(NamedTuple):
    """What the job has under an id."""

    position: int
    text: str | None
    fields: str | None


def _place(
    shards: Iterable[Sequence[Document]], there: dict[str, _Stored], position: int
) -> tuple[list[Appended], list[list[Document]]]:
    """What comes of each document, and the shards of those that are new, from `position` on. `there`: what the job has
    by id, to which the new ones are added."""
    appended: list[Appended] = []
    new_shards: list[list[Document]] = []
    for shard in shards:
        new: list[Document] = []
        for document in shard:
            if (stored := there.get(document.external_id)) is not None:
                appended.append(_sent_again(document, stored))
                continue
            there[document.external_id] = _Stored(position, document.text, document.fields)
            appended.append(Appended(document.external_id, AppendState.ADDED, position))
            new.append(document._replace(position=position, line=position + 1))
            position += 1
        if new:
            new_shards.append(new)
    return appended, new_shards


def _require_open(row: Row[*tuple[Any, ...]] | None, job_id: int) -> str:
    """The task of a job that is open; `row` of `STATE`."""
    if row is None:
        raise NotFoundError(f"there is no job {job_id}; kvjobs ls lists the jobs")
    if row.is_open:
        return str(row.task)
    if row.closed_at is None:
        raise SpecError(OF_A_CORPUS.format(job_id=job_id))
    how = "cancelled" if row.cancel_requested_at or row.state == JobState.CANCELLED else "closed"
    raise SpecError(f"job {job_id} was {how}, so no document can be appended; open another, with another key")


def _sent_again(document: Document, stored: _Stored) -> Appended:
    """What comes of a document whose id the job has."""
    if document.text != stored.text:
        what = "text"
    elif document.fields != stored.fields and read_fields(document.fields) != read_fields(stored.fields):
        what = "fields"
    else:
        return Appended(document.external_id, AppendState.PRESENT, stored.position)
    reason = (
        f"the job has a document with the id {quoted(document.external_id)} and other {what}, at position "
        f"{stored.position}; give this one another id"
    )
    return Appended(document.external_id, AppendState.REFUSED, stored.position, Reject.DUPLICATE_ID, reason)
