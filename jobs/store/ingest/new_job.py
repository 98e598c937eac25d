"""The row of a new job, and of the stages behind it: what a submit may, and what is stored of it.

Knows: the transaction that a submit is in. Does not know: documents.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, distinct, func, insert, null, select, update

from jobs.errors import CorpusError, LimitReached, SpecError
from jobs.spec import JobSpec
from jobs.stage import CORPUS, FilterSpec, Stage
from jobs.store.connection.dialect import insert_or_ignore
from jobs.store.glossaries import store_glossaries
from jobs.store.queue.chains import chain_of
from jobs.store.queue.job_providers import insert_providers
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ENDED_STATES, JobState
from jobs.store.schema.tables import Job, JobCounts, JobTurn
from jobs.store.schema.token_table import AccessToken
from jobs.text.formatting import counted


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


def make_job(connection: Connection, request: JobRequest, key: str) -> int | None:
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
    """Insert one job with its counters and its providers; `more`: further columns. Its number, or None where another
    has its key or its name."""
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
        connection.execute(insert(JobCounts).values(job_id=job_id, **no_counts()))
        connection.execute(insert(JobTurn).values(job_id=job_id))
        insert_providers(connection, job_id, spec)
    return job_id


def start_anew(connection: Connection, request: JobRequest, job_id: int) -> None:
    """Let a failed job without documents be read again, as it is asked for now."""
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


def notify_too(connection: Connection, request: JobRequest, job_id: int) -> None:
    """Who submits a job that there is already is told of its end as well, unless it is over."""
    known = json.loads(connection.scalar(select(Job.notify).where(Job.id == job_id)) or "[]")
    if more := [url for url in request.notify if url not in known]:
        of_chain = Job.id.in_(chain_of(connection, job_id))
        connection.execute(update(Job).where(of_chain).values(notify=json.dumps([*known, *more])))


def refuse_changed_source(connection: Connection, request: JobRequest) -> None:
    """Raise CorpusError where an earlier job has not read its file to the end, which is another one by now."""
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


def no_counts() -> dict[str, int]:
    """The columns of `job_counts`, each 0."""
    return {column.name: 0 for column in JobCounts.__table__.columns if column.name != "job_id"}


def _notified(request: JobRequest) -> str | None:
    """The addresses as they are stored."""
    return json.dumps(list(request.notify)) if request.notify else None
