"""The life of a lease: taken, renewed, released, or refused. (Results: `record`. Leases that ran out: `deaths`.)

A lease has an epoch and a token, which are checked in the same transaction that writes results: a worker that slept
past its lease finds other values and is refused, so nothing is counted twice. The epoch is the number of the lease of
its shard. The token is random, so no other lease has it, even where a prune or a restored database gave the numbers of
jobs and shards away again. Times are by the database's clock.
"""

import functools
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Connection,
    Executable,
    Row,
    ScalarSelect,
    Select,
    bindparam,
    exists,
    or_,
    select,
    true,
    update,
)

from jobs.queues import Queues
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.queue.batches import (
    Batch,
    BatchLimits,
    PlannedDocument,
    batch_limits,
    plan_batches,
)
from jobs.store.queue.completion import close_cancelled, end_if_over
from jobs.store.queue.job_counters import lock_counters
from jobs.store.queue.leasable import IS_READY, leasable, order
from jobs.store.queue.pauses import paused_values
from jobs.store.queue.shard_events import log_event
from jobs.store.queue.work import Work, fence, finish_shard, ready_values, set_in_flight
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS, Number, ResultTable, in_range
from jobs.store.schema.states import JobState, ShardState
from jobs.store.schema.tables import Document, Job, Shard
from jobs.system.failpoints import failpoint

# Leases in a row that ended in the death of their process, without one recorded batch. The first may have another
# cause; after the second the batch in flight is suspect, and is retried in a disposable process
# (`worker.isolation.sandbox_process`).
SUSPECT_AFTER = 2


@dataclass(frozen=True, slots=True)
class RenewedLeases:
    """The leases that a heartbeat has renewed."""

    tokens: frozenset[str] = frozenset()
    to_release: frozenset[str] = frozenset()  # those of them whose job was paused or cancelled


def lease(
    database: Database,
    worker_id: int,
    lane: int,
    lease_s: float,
    *,
    queues: Queues = Queues(),  # noqa: B008 - frozen
    warm: Collection[str] = (),
    first_job: int | None = None,
    batches_at_once: Callable[[JobSpec], int] = lambda spec: 1,
) -> Work | None:
    """Lease the next ready shard of these queues; None if there is none. Jobs come in the `order` of `warm` models
    and `first_job`, the shards of a job in that of its documents.

    `batches_at_once`: a translation's batches have so many times the usual size. Not in a shard whose last lease ended
    in a crash: the fewer documents are suspect, the better."""
    find, take = _lease_statements(queues, tuple(sorted(warm)), first_job, lease_s, database.is_sqlite)
    if database.is_sqlite:  # an idle worker asks often, and should not wait for the write lock
        with database.reading() as connection:
            if connection.execute(find).scalar() is None:
                return None
    with database.writing() as connection:
        holder = {"of_worker": worker_id, "of_lane": lane, "new_token": secrets.token_hex(16)}
        taken = connection.execute(take, holder).one_or_none()
        if taken is None:
            return None
        work = _begin(connection, taken, worker_id, lane, batches_at_once)
    failpoint("after-lease")
    if not work.batches:
        end_if_over(database, work.job_id)
    return work


def awaits_documents(database: Database, queues: Queues) -> bool:
    """Whether a job of these queues is open, so that a document may come at any moment."""
    with database.reading() as connection:
        open_job = select(Job.id).where(leasable(queues), Job.is_open).limit(1)
        return connection.execute(open_job).first() is not None


def renew(connection: Connection, lease_s: float, works: Collection[Work]) -> RenewedLeases:
    """Renew the leases that the lanes of a worker hold. One that is not in the answer is lost: its work must stop at
    once. A lease that no lane knows (its COMMIT succeeded, the answer was lost) runs out.

    A shard that is locked is most often being recorded, which renews its lease: then half of the lease may pass before
    a heartbeat waits for it. A heartbeat that always waited took as long as a record, half a minute in a fleet of a
    thousand.
    """
    if not works:
        return RenewedLeases()
    held = (
        Shard.id.in_({work.shard_id for work in works}),
        Shard.lease_token.in_({work.token for work in works}),
        Shard.state == ShardState.LEASED,
    )
    unlocked = select(Shard.id).where(*held).with_for_update(skip_locked=True)
    renewal = update(Shard).values(lease_until=db_time(lease_s)).returning(Shard.lease_token, Shard.job_id)
    rows = [*connection.execute(renewal.where(Shard.id.in_(unlocked)))]
    if len(rows) < len(works):
        is_fresh = (Shard.lease_until > db_time(lease_s / 2)).label("is_fresh")
        renewed = {row.lease_token for row in rows}
        left = connection.execute(select(Shard.lease_token, Shard.job_id, is_fresh).where(*held)).all()
        locked = [row for row in left if row.lease_token not in renewed]
        rows += [row for row in locked if row.is_fresh]
        if not all(row.is_fresh for row in locked):
            rows += connection.execute(renewal.where(*held, ~is_fresh.element))
    unwanted = connection.execute(
        select(Job.id).where(
            Job.id.in_({row.job_id for row in rows}),
            or_(Job.paused, Job.cancel_requested_at.is_not(None)),
        )
    ).scalars()
    stopped = set(unwanted)
    return RenewedLeases(
        tokens=frozenset(row.lease_token for row in rows),
        to_release=frozenset(row.lease_token for row in rows if row.job_id in stopped),
    )


def release(database: Database, work: Work, *, crashed: bool = False) -> None:
    """Give a shard back; the next lease continues where this one stopped. Does nothing if the lease is lost.

    `crashed`: the batch in flight may have ended a process: it counts as for a worker that died.
    """
    with database.writing() as connection:
        if _release(connection, work) and crashed:
            connection.execute(update(Shard).where(Shard.id == work.shard_id).values(crashes=Shard.crashes + 1))


def refuse(database: Database, work: Work, reason: str) -> None:
    """Give a shard back and pause its job until a person resumes it. Does nothing if the lease is lost: by now the
    numbers of shard and job may belong to others."""
    with database.writing() as connection:
        if _release(connection, work):
            running = (Job.id == work.job_id, Job.state == JobState.RUNNING)
            connection.execute(update(Job).where(*running).values(paused_values(reason)))


@functools.lru_cache(maxsize=64)
def _lease_statements(
    queues: Queues, warm: tuple[str, ...], first_job: int | None, lease_s: float, is_sqlite: bool
) -> tuple[Executable, Executable]:
    """Two statements: the shard that is to be leased next, and its lease. Kept, because making them takes longer than
    executing them."""
    candidates = select(Job.id).where(leasable(queues)).order_by(*order(warm, first_job))
    next_shard = _next_on_sqlite(candidates) if is_sqlite else _next_unlocked(candidates)
    take = (
        update(Shard)
        .where(Shard.id == next_shard)
        .values(
            state=ShardState.LEASED,
            lease_owner=bindparam("of_worker"),
            lane=bindparam("of_lane"),
            lease_epoch=Shard.lease_epoch + 1,
            lease_token=bindparam("new_token"),
            lease_until=db_time(lease_s),
            attempts=Shard.attempts + 1,
        )
        .returning(
            *(Shard.id, Shard.job_id, Shard.start, Shard.stop),
            *(Shard.lease_epoch, Shard.lease_token, Shard.crashes),
        )
    )
    return select(next_shard), take


def _next_on_sqlite(candidates: Select[Any]) -> ScalarSelect[Any]:
    """The first ready shard of the first job that has one. The job first, then its shard: both are index look-ups,
    however many shards a paused job has. Nobody else writes meanwhile."""
    job_id = candidates.where(exists().where(Shard.job_id == Job.id, IS_READY)).limit(1).scalar_subquery()
    return select(Shard.id).where(Shard.job_id == job_id, IS_READY).order_by(Shard.id).limit(1).scalar_subquery()


def _next_unlocked(candidates: Select[Any]) -> ScalarSelect[Any]:
    """On PostgreSQL: the first ready shard that no other transaction has locked, whichever job has it; it is locked.

    The lateral join asks one job after the other in their order, each with an index look-up, and LIMIT ends it at the
    first shard. It sorts jobs, never shards, of which there are hundreds of thousands. The CTE has to be materialized:
    a subquery may be evaluated once per row, and then locks more shards than the LIMIT allows."""
    job = candidates.subquery("job")
    shard = select(Shard.id).where(Shard.job_id == job.c.id, IS_READY).order_by(Shard.id).limit(1)
    first = shard.with_for_update(skip_locked=True).lateral("shard")
    found = select(first.c.id).select_from(job.join(first, true())).limit(1).cte("next_shard")
    return select(found.prefix_with("MATERIALIZED", dialect="postgresql").c.id).scalar_subquery()


def _begin(
    connection: Connection,
    taken: Row[*tuple[Any, ...]],
    worker_id: int,
    lane: int,
    batches_at_once: Callable[[JobSpec], int],
) -> Work:
    """The work of a shard that was just leased."""
    job = connection.execute(
        select(Job.task, Job.model, Job.model_revision, Job.options, Job.providers, Job.started_at).where(
            Job.id == taken.job_id
        )
    ).one()
    spec = JobSpec.restore(
        task=job.task,
        model=job.model,
        model_revision=job.model_revision,
        options_json=job.options,
        providers_json=job.providers,
    )
    limits = batch_limits(spec.kind, 1 if taken.crashes else batches_at_once(spec))
    work = Work(
        shard_id=taken.id,
        job_id=taken.job_id,
        epoch=taken.lease_epoch,
        token=taken.lease_token,
        worker_id=worker_id,
        lane=lane,
        spec=spec,
        batches=_unfinished_batches(connection, RESULTS[job.task], taken.job_id, taken.start, taken.stop, limits),
        suspect=taken.crashes >= SUSPECT_AFTER,
    )
    log_event(connection, work.job_id, work.shard_id, "leased", work.epoch, worker_id)
    if work.batches:
        set_in_flight(connection, work, work.batches[0])
    else:
        finish_shard(connection, work)
    if job.started_at is None:
        is_first = (Job.id == taken.job_id, Job.started_at.is_(None))
        connection.execute(update(Job).where(*is_first).values(started_at=db_time()))
    return work


def _unfinished_batches(
    connection: Connection, result: ResultTable, job_id: int, start: int, stop: int, limits: BatchLimits
) -> tuple[Batch, ...]:
    here = {"of_job": job_id, "first": start, "behind": stop}
    ended, documents = _shard_statements(result)
    with_result = set(connection.execute(ended, here).scalars())
    rows = connection.execute(documents, here)
    planned = (
        PlannedDocument(
            row.position,
            row.text or "",
            row.estimated_tokens,
            ended=row.status is not None or row.position in with_result,
            route=row.route,
            own_options=row.own_options,
        )
        for row in rows
    )
    return plan_batches(planned, limits.tokens, limits.documents)


@functools.cache
def _shard_statements(result: ResultTable) -> tuple[Executable, Executable]:
    """Two statements, made once: the positions of a range that have a result, and its documents."""
    here: tuple[Number, Number, Number] = bindparam("of_job"), bindparam("first"), bindparam("behind")
    documents = (
        select(
            *(Document.position, Document.text, Document.estimated_tokens, Document.status),
            *(Document.route, Document.own_options),
        )
        .where(in_range(Document, *here))
        .order_by(Document.position)
    )
    return select(result.position).where(in_range(result, *here)), documents


def _release(connection: Connection, work: Work) -> bool:
    """Whether the lease was still valid, and the shard was released."""
    if not connection.execute(update(Shard).where(*fence(work)).values(ready_values())).rowcount:
        return False
    lock_counters(connection, work.job_id)
    log_event(connection, work.job_id, work.shard_id, "released", work.epoch, work.worker_id)
    close_cancelled(connection, work.job_id, [work.shard_id])
    return True
