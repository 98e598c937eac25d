"""Work that waits for a worker, who serves a job, and whether workers take any work: what a monitor asks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from jobs.store.queue.leasable import IS_READY, leasable
from jobs.store.queue.waiting import live_workers, serves
from jobs.store.schema.clock import UtcDateTime, db_time
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Job, Shard, ShardEvent
from jobs.text.formatting import counted, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How live workers serve the jobs of a queue and model: how many would lease a shard, and with how many lanes."""

    live: int  # workers of any queue
    with_gpu: int  # of these
    queues: tuple[str, ...]  # that they serve, each once
    serving: int  # workers that would lease a shard of the job
    held_back: int  # workers that would, were they not asked to pause or to drain
    lanes: int  # of the serving ones
    busy_lanes: int  # of these: with a shard, of any job

    @property
    def free_lanes(self) -> int:
        return max(0, self.lanes - self.busy_lanes)


def service_of(connection: Connection, queue: str, model: str, silence_s: float) -> Service:
    """The service for jobs of this queue and model. A worker without a heartbeat for `silence_s` does not count."""
    workers = list(live_workers(connection, silence_s))
    fitting = [worker for worker in workers if serves(worker.queues, queue, model)]
    serving = {worker.worker_id: worker for worker in fitting if worker.takes_work}
    leased = select(Shard.lease_owner, func.count()).where(Shard.state == ShardState.LEASED).group_by(Shard.lease_owner)
    return Service(
        live=len(workers),
        with_gpu=sum(worker.queues.has_gpu for worker in workers),
        queues=tuple(sorted({str(worker.queues) for worker in workers})),
        serving=len(serving),
        held_back=len(fitting) - len(serving),
        lanes=sum(worker.lanes for worker in serving.values()),
        busy_lanes=sum(number for owner, number in connection.execute(leased) if owner in serving),
    )


PROGRESS = ("leased", "recorded", "finished")  # events of a worker that takes work, or gets on with it
NEWEST_EVENTS = 500  # that are looked at: the log has one or more for each batch


@dataclass(frozen=True, slots=True)
class WaitingWork:
    """The shards of one queue that could be leased now: of jobs that run and are neither paused nor cancelled."""

    queue: str
    shards: int
    oldest_s: float  # for how long the oldest has been ready


@dataclass(frozen=True, slots=True)
class WaitingShard:
    """The shard that has been ready for the longest time."""

    shard_id: int
    job_id: int
    since: datetime
    waits_s: float


@dataclass(frozen=True, slots=True)
class WorkProgress:
    """Whether workers take the shards that wait, with a sentence about it."""

    is_stuck: bool
    sentence: str


def waiting_work(connection: Connection) -> list[WaitingWork]:
    """What waits in each queue, in the order of their names."""
    rows = connection.execute(
        select(
            Job.queue,
            func.count().label("shards"),
            func.min(Shard.available_at, type_=UtcDateTime()).label("since"),
            db_time().label("now"),
        )
        .join(Shard, Shard.job_id == Job.id)
        .where(leasable(), IS_READY)
        .group_by(Job.queue)
        .order_by(Job.queue)
    )
    return [WaitingWork(row.queue, row.shards, max(0.0, (row.now - row.since).total_seconds())) for row in rows]


def oldest_waiting_shard(connection: Connection) -> WaitingShard | None:
    """The first shard of the oldest job, among the shards that may be leased."""
    now = db_time()
    row = connection.execute(
        select(Shard.id, Shard.job_id, Shard.available_at, now.label("now"))
        .join(Job, Job.id == Shard.job_id)
        .where(leasable(), IS_READY)
        .order_by(Shard.job_id, Shard.id)
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    return WaitingShard(row.id, row.job_id, row.available_at, max(0.0, (row.now - row.available_at).total_seconds()))


def check_progress(connection: Connection, max_wait_s: float) -> WorkProgress:
    """Stuck where a shard has waited for longer than `max_wait_s`, nobody works on its queue, and nobody has for so
    long: workers are missing, or they hang. That all of them are busy with other shards of the queue is no reason."""
    waiting = waiting_work(connection)
    if not waiting:
        return WorkProgress(False, "No work waits.")
    if late := [work for work in waiting if work.oldest_s > max_wait_s]:
        active = _active_queues(connection, max_wait_s)
        if stuck := [work for work in late if work.queue not in active]:
            return WorkProgress(True, _stuck(stuck, max_wait_s))
    shards, oldest_s = sum(work.shards for work in waiting), max(work.oldest_s for work in waiting)
    sentence = f"{counted(shards, 'shard')} ready, the oldest for {duration(oldest_s)}"
    return WorkProgress(False, f"{sentence}; workers are busy with others." if late else f"{sentence}.")


def _active_queues(connection: Connection, seconds: float) -> set[str]:
    """The queues of which a shard is leased, or of which one was worked on in the last `seconds`."""
    leased = select(Job.queue).join(Shard, Shard.job_id == Job.id)
    leased = leased.where(Shard.state == ShardState.LEASED, Shard.lease_until > db_time())
    newest = select(ShardEvent).order_by(ShardEvent.id.desc()).limit(NEWEST_EVENTS).subquery()
    touched = select(Job.queue).join(newest, newest.c.job_id == Job.id)
    touched = touched.where(newest.c.event.in_(PROGRESS), newest.c.at > db_time(-seconds))
    return {*connection.execute(leased.distinct()).scalars(), *connection.execute(touched.distinct()).scalars()}


def _stuck(late: Sequence[WaitingWork], max_wait_s: float) -> str:
    queues = " and ".join(f"{counted(work.shards, 'shard')} in queue {work.queue}" for work in late)
    oldest = duration(max(work.oldest_s for work in late))
    return f"No worker has taken any of {queues} for {max_wait_s:g} s; the oldest has waited for {oldest}."
