"""Who serves a job: live workers of its queue or model, and how many of their lanes are busy."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from jobs.store.queue.waiting import live_workers, serves
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The workers as a job sees them."""

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
