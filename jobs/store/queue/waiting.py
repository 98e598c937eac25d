"""Ready shards, and the live workers that could lease them: how many hints each queue needs."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, exists, func, select

from jobs.queues import CPU, Queues
from jobs.store.database import Database
from jobs.store.queue.leasable import IS_READY, leasable, order
from jobs.store.schema.clock import db_time
from jobs.store.schema.current_sums import current
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Job, JobCounts, Shard, Worker
from jobs.system.process import ProcessId

HINTS_PER_LANE = 2


@dataclass(frozen=True, slots=True)
class WaitingShards:
    """Ready shards of one queue and model."""

    queue: str
    model: str
    shards: int  # counted up to a limit


@dataclass(frozen=True, slots=True)
class JobsAhead:
    """How much work is leased before the shards of a job."""

    jobs: int
    documents: int  # without a terminal state


@dataclass(frozen=True, slots=True)
class LiveWorker:
    worker_id: int
    queues: Queues
    lanes: int
    takes_work: bool = True  # it is asked neither to pause nor to drain


def hints_wanted(database: Database, silence_s: float) -> dict[str, int]:
    """How many hints each queue of the broker should hold: one per ready shard, at most two per lane. `silence_s`: a
    worker without a heartbeat for so long does not count."""
    with database.reading() as connection:
        workers = [worker for worker in live_workers(connection, silence_s) if worker.takes_work]
        most = HINTS_PER_LANE * sum(worker.lanes for worker in workers)
        waiting = _waiting(connection, most) if most else []
    return spread_hints(waiting, workers)


def is_served(database: Database, queue: str, model: str, silence_s: float) -> bool:
    """Whether a live worker serves such jobs: with a heartbeat in the last `silence_s`, not known to be dead, and asked
    neither to pause nor to drain."""
    with database.reading() as connection:
        return any(
            worker.takes_work and serves(worker.queues, queue, model) for worker in live_workers(connection, silence_s)
        )


def serves(queues: Queues, queue: str, model: str) -> bool:
    """Whether a worker with these queues processes the jobs of this queue and model."""
    return _hint_queue(queues, WaitingShards(queue, model, 1)) is not None


def jobs_ahead(connection: Connection, job_id: int) -> JobsAhead:
    """The jobs of its queue whose shards are leased before those of this one, by a worker that has neither's model
    open. None where a shard of this job is leased. The stages of its own chain do not count."""
    counts, this_job = current(JobCounts), select(Job.queue, Job.chain).where(Job.id == job_id).subquery("this_job")
    failed = counts.rejected + counts.failed + counts.quarantined + counts.cancelled
    ordered = (
        select(
            *(Job.id, Job.chain, this_job.c.chain.label("its_chain")),
            (counts.documents - counts.succeeded - failed - counts.skipped).label("documents"),
            func.row_number().over(order_by=order()).label("place"),
        )
        .join(counts, counts.job_id == Job.id)
        .join(this_job, Job.queue == this_job.c.queue)
        .where((leasable() & (counts.shards_open > 0)) | (Job.id == job_id))
        .subquery()
    )
    its_place = select(ordered.c.place).where(ordered.c.id == job_id).scalar_subquery()
    is_begun = exists().where(Shard.job_id == job_id, Shard.state == ShardState.LEASED)
    number, documents = connection.execute(
        select(func.count(), func.coalesce(func.sum(ordered.c.documents), 0))
        .where(ordered.c.place < its_place, ~is_begun)
        .where(ordered.c.its_chain.is_(None) | ordered.c.chain.is_distinct_from(ordered.c.its_chain))
    ).one()
    return JobsAhead(number, int(documents))


def has_expired_lease(database: Database) -> bool:
    with database.reading() as connection:
        expired = select(Shard.id).where(Shard.state == ShardState.LEASED, Shard.lease_until < db_time()).limit(1)
        return connection.execute(expired).first() is not None


def spread_hints(waiting: list[WaitingShards], workers: list[LiveWorker]) -> dict[str, int]:
    """The number of hints for each queue. A worker that serves a job only by its model is sent hints in the queue of
    that model; the other workers in the queue of the job."""
    wanted: dict[str, int] = {}
    lanes: dict[str, int] = {}
    for kind in waiting:
        listening: dict[str, int] = {}
        for worker in workers:
            if name := _hint_queue(worker.queues, kind):
                listening[name] = listening.get(name, 0) + worker.lanes
        for name, number in listening.items():
            wanted[name] = wanted.get(name, 0) + kind.shards
            lanes[name] = max(lanes.get(name, 0), number)
    return {name: min(shards, HINTS_PER_LANE * lanes[name]) for name, shards in wanted.items()}


def _hint_queue(queues: Queues, kind: WaitingShards) -> str | None:
    if kind.queue in queues.plain:
        return kind.queue
    if kind.model in queues.models and (kind.queue == CPU or queues.has_gpu):
        return f"model:{kind.model}"
    return None


def _waiting(connection: Connection, limit: int) -> list[WaitingShards]:
    """Ready shards by queue and model. Each job's are counted up to the limit: a job may have a million."""
    some = select(Shard.id).where(Shard.job_id == Job.id, IS_READY).limit(limit).correlate(Job).subquery()
    count = select(func.count()).select_from(some).correlate(Job).scalar_subquery()
    shards: dict[tuple[str, str], int] = {}
    for queue, model, number in connection.execute(select(Job.queue, Job.model, count).where(leasable())):
        shards[queue, model] = shards.get((queue, model), 0) + number
    return [WaitingShards(queue, model, number) for (queue, model), number in shards.items() if number]


def live_workers(connection: Connection, silence_s: float) -> Iterator[LiveWorker]:
    """The workers with a heartbeat in the last `silence_s` and a process that is not known to be dead."""
    heard_of = (Worker.stopped_at.is_(None)) & (Worker.heartbeat_at > db_time(-silence_s))
    for row in connection.execute(select(Worker.__table__).where(heard_of)):
        if not ProcessId(row.machine, row.pid, row.process_started).is_dead():
            yield LiveWorker(row.id, Queues.parse(row.queues, row.device), row.lanes, row.asked_to is None)
