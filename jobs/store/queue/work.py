"""`Work`: a leased shard as plain values; the conditions by which a lost lease is noticed; writes to a leased shard."""

import functools
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select, update

from jobs.spec import JobSpec
from jobs.store.queue.batches import Batch
from jobs.store.queue.chains import is_stage, next_stage
from jobs.store.queue.completion import close_cancelled, close_shards, pass_on
from jobs.store.queue.deltas import add_to_job
from jobs.store.queue.job_counters import add_to_counters, close_one_shard, wait_for_turn
from jobs.store.queue.shard_events import log_event
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS, ResultTable, open_positions
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Shard


@dataclass(frozen=True, slots=True)
class Work:
    """A leased shard as plain values, because no transaction is open while an engine runs."""

    shard_id: int
    job_id: int
    epoch: int
    token: str  # of this lease alone
    worker_id: int
    lane: int
    spec: JobSpec
    batches: tuple[Batch, ...]  # that are not recorded yet; each is recorded as a whole
    suspect: bool = False  # processes died with the first batch in flight, twice in a row

    @property
    def lease(self) -> dict[str, int]:
        """The columns by which the rows of a batch say under which lease it was recorded."""
        return {name: getattr(self, name) for name in ("job_id", "shard_id", "epoch", "worker_id", "lane")}


def fence(work: Work) -> tuple[Any, ...]:
    """Conditions on a shard's row that hold as long as the lease of this work lasts."""
    return (*newest_lease(work), Shard.state == ShardState.LEASED)


def newest_lease(work: Work) -> tuple[Any, ...]:
    """Conditions on a shard's row that hold until it is leased again or the lease is taken back, also after it was
    released or finished under this lease."""
    return (
        Shard.id == work.shard_id,
        Shard.job_id == work.job_id,
        Shard.lease_epoch == work.epoch,
        Shard.lease_token == work.token,
    )


def shard_exists(connection: Connection, work: Work) -> bool:
    """Whether the shard exists; if so it is locked until the transaction ends. Events are logged only for a shard that
    exists: a prune deletes the shards first, then the log, so no event is left behind."""
    shard = select(Shard.id).where(Shard.id == work.shard_id, Shard.job_id == work.job_id)
    return connection.execute(shard.with_for_update()).first() is not None


def positions_json(batch: Batch) -> str:
    """The positions of a batch, as `shards.in_flight` stores them."""
    return json.dumps([document.position for document in batch], separators=(",", ":"))


def set_in_flight(connection: Connection, work: Work, batch: Batch) -> None:
    """Note that the worker computes this batch now."""
    connection.execute(update(Shard).where(Shard.id == work.shard_id).values(in_flight=positions_json(batch)))


def finish_shard(connection: Connection, work: Work) -> None:
    """Close the shard if all its documents are in a terminal state. If a retry reopened some while it was leased, the
    shard becomes ready again. Behind the transaction the caller calls `end_if_over`.

    On PostgreSQL the recorders of a job that is no stage of a chain do not wait for each other here: they append that a
    shard has ended. A retry that opens a document of this shard at this moment is not seen, and sees to it itself
    (`reopen_shards`).
    Those of a chain hand documents on, and wait for each other. So what needs no lock of the counters is written before
    it, as if the shard were closed; the lock is taken by the counting itself, and then the documents are looked at.
    """
    done = {"state": ShardState.DONE, "lease_owner": None, "lane": None, "lease_until": None, "in_flight": None}
    closing = update(Shard).where(*fence(work)).values(done).returning(Shard.start, Shard.stop)
    shard = connection.execute(closing).one()
    log_event(connection, work.job_id, work.shard_id, "finished", work.epoch, work.worker_id)
    here = {"of_job": work.job_id, "first": shard.start, "behind": shard.stop}
    is_open = _is_open_statement(RESULTS[work.spec.task])
    is_alone = connection.dialect.name == "postgresql" and not is_stage(connection, work.job_id)
    if is_alone and not connection.execute(is_open, here).scalar():
        add_to_job(connection, work.job_id, {"shards_open": -1})
        return
    is_last_stage = next_stage(connection, work.job_id) is None
    wait_for_turn(connection, work.job_id)
    num_left = close_one_shard(connection, work.job_id)
    if connection.execute(is_open, here).scalar():
        add_to_counters(connection, work.job_id, shards_open=1)
        connection.execute(update(Shard).where(*newest_lease(work)).values(ready_values()))
        log_event(connection, work.job_id, work.shard_id, "released", work.epoch, work.worker_id)
        close_cancelled(connection, work.job_id, [work.shard_id])
        return
    if not is_last_stage:
        pass_on(connection, work.job_id, shard.start, shard.stop)
    if not num_left:
        close_shards(connection, work.job_id, 0)


@functools.cache
def _is_open_statement(result: ResultTable) -> Select[Any]:
    """Whether a document of a range is open. Made once: it is asked at the end of every shard."""
    return select(open_positions(result, bindparam("of_job"), bindparam("first"), bindparam("behind")).exists())


def ready_values() -> dict[str, Any]:
    """Values for the columns of a shard that becomes ready."""
    return {
        "state": ShardState.READY,
        "lease_owner": None,
        "lane": None,
        "lease_until": None,
        "in_flight": None,
        "available_at": db_time(),
    }
