"""
The rule of the queue: which jobs' shards may be leased, and which comes first.

The lease, "N jobs ahead" and whoever looks for waiting work ask here.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, and_, case, false, func, or_

from jobs.queues import CPU, Queues
from jobs.store.schema.states import JobState, ShardState
from jobs.store.schema.tables import Job, Shard

IS_READY = Shard.state == ShardState.READY  # of a shard whose job is leasable: it may be leased now


def leasable(queues: Queues | None = None) -> ColumnElement[bool]:
    """Whether the ready shards of a `Job` may be leased: by a worker with these queues, or by any (None)."""
    runs = (Job.state == JobState.RUNNING) & ~Job.paused & Job.cancel_requested_at.is_(None)
    if queues is None:
        return runs
    of_device = Job.queue == CPU if not queues.has_gpu else Job.queue.is_not(None)
    return runs & or_(Job.queue.in_(queues.plain), and_(Job.model.in_(queues.models), of_device))


def order(warm: Collection[str] = (), first_job: int | None = None) -> tuple[Any, ...]:
    """The order in which jobs' shards are leased, for `ORDER BY`: `first_job` and its chain first, then by highest
    priority, latest stage of a chain, model in `warm` (revisions), oldest job."""
    is_first = or_(Job.id == first_job, Job.chain == first_job) if first_job is not None else false()
    return (
        case((is_first, 0), else_=1),
        Job.priority.desc(),
        func.coalesce(Job.stage, 1).desc(),  # what was begun is ended first
        case((Job.model_revision.in_(list(warm)), 0), else_=1),
        Job.id,
    )
