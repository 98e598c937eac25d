"""A leased shard as plain values, and the writes that its lease allows."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, exists, select, update

from jobs.spec import JobSpec
from jobs.store.batches import Batch
from jobs.store.completion import close_cancelled, close_shards
from jobs.store.job_counters import lock_counters
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS, is_open
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Document, Shard
from jobs.store.shard_events import log_event


@dataclass(frozen=True, slots=True)
class Work:
    """A leased shard as plain values: no transaction is open while an engine runs."""

    shard_id: int
    job_id: int
    epoch: int
    token: str  # of the lease, and of no other
    worker_id: int
    lane: int
    spec: JobSpec
    batches: tuple[Batch, ...]  # what is left to do; each is recorded as a whole
    suspect: bool = False  # the first batch was in flight when processes died, twice in a row


def fence(work: Work) -> tuple[Any, ...]:
    """What is true of a shard for as long as the lease of this work lasts."""
    return (*newest_lease(work), Shard.state == ShardState.LEASED)


def newest_lease(work: Work) -> tuple[Any, ...]:
    """What is true of a shard until another leases it or the lease runs out, also after it was given back or finished
    under this one."""
    return (
        Shard.id == work.shard_id,
        Shard.job_id == work.job_id,
        Shard.lease_epoch == work.epoch,
        Shard.lease_token == work.token,
    )


def shard_exists(connection: Connection, work: Work) -> bool:
    """Whether the shard still exists; it stays until the transaction ends. Something is logged only of one that does:
    a prune deletes the shards first, then the log, so none of it is left behind."""
    shard = select(Shard.id).where(Shard.id == work.shard_id, Shard.job_id == work.job_id)
    return connection.execute(shard.with_for_update()).first() is not None


def positions_json(batch: Batch) -> str:
    return json.dumps([document.position for document in batch], separators=(",", ":"))


def set_in_flight(connection: Connection, work: Work, batch: Batch) -> None:
    connection.execute(update(Shard).where(Shard.id == work.shard_id).values(in_flight=positions_json(batch)))


def finish_shard(connection: Connection, work: Work) -> None:
    """Close the shard if every document of it is in a terminal state. A retry may have put some back while the shard
    was leased: then it is ready again."""
    lock_counters(connection, work.job_id)
    left = exists().where(
        Document.job_id == Shard.job_id,
        Document.position >= Shard.start,
        Document.position < Shard.stop,
        *is_open(RESULTS[work.spec.task]),
    )
    if connection.execute(update(Shard).where(*fence(work), left).values(ready_values())).rowcount:
        log_event(connection, work.job_id, work.shard_id, "released", work.epoch, work.worker_id)
        close_cancelled(connection, work.job_id, [work.shard_id])
        return
    connection.execute(
        update(Shard)
        .where(*fence(work))
        .values(state=ShardState.DONE, lease_owner=None, lane=None, lease_until=None, in_flight=None)
    )
    log_event(connection, work.job_id, work.shard_id, "finished", work.epoch, work.worker_id)
    close_shards(connection, work.job_id, 1)


def ready_values() -> dict[str, Any]:
    """The columns of a shard that may be leased."""
    return {
        "state": ShardState.READY,
        "lease_owner": None,
        "lane": None,
        "lease_until": None,
        "in_flight": None,
        "available_at": db_time(),
    }
