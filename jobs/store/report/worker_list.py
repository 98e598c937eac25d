"""The list of workers: each one's process, state, models and leases."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, select

from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ShardState, WorkerRequest
from jobs.store.schema.tables import Shard, Worker
from jobs.system.process import ProcessId, is_here


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSummary:
    """One worker process, with its leases."""

    worker_id: int
    state: str  # busy | idle | paused | draining | stale | killed | stopped
    host: str
    pid: int
    parent_pid: int | None  # that was started, and started this one
    device: str
    provider: str
    queues: str
    lanes: int
    models: Mapping[str, float]  # warm -> seconds it took to load
    shards: tuple[Mapping[str, int], ...]  # leased: shard_id, job_id, lane, documents that it computes now
    in_flight: int  # documents that it computes now
    kv_bytes: int
    buffer_reuses: int
    version: str
    node: str | None
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    buffer_allocations: int
    asked_to: str | None  # pause | drain; None: to work
    asked_by: str | None
    asked_at: datetime | None
    is_here: bool  # a process of this machine
    read_at: datetime  # by the database's clock

    @property
    def is_alive(self) -> bool:
        return self.state != "stale" and not self.has_ended

    @property
    def has_ended(self) -> bool:
        return self.state in ("killed", "stopped")

    @property
    def started_pid(self) -> int:
        """The pid of the process that a person or a service manager started."""
        return self.parent_pid or self.pid

    @property
    def silent_s(self) -> float:
        """Seconds since its last heartbeat."""
        return max(0.0, (self.read_at - self.heartbeat_at).total_seconds())

    @property
    def uptime_s(self) -> float:
        """Seconds from its start to now, or to its end."""
        return max(0.0, ((self.stopped_at or self.read_at) - self.started_at).total_seconds())

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


WORKER_FIELDS = tuple(name for name in WorkerSummary.__dataclass_fields__ if name not in ("is_here", "read_at"))


def list_workers(
    connection: Connection,
    silence_s: float,
    *,
    everything: bool = False,
    before: int | None = None,
    limit: int | None = None,
) -> list[WorkerSummary]:
    """Workers, newest first; stopped ones only with `everything`; with `before` those whose number is lower (the next
    page). A worker without a heartbeat for `silence_s` is stale, one whose process ended without being asked to is
    killed."""
    workers = _workers(silence_s).order_by(Worker.id.desc()).limit(limit)
    if before is not None:
        workers = workers.where(Worker.id < before)
    if not everything:
        workers = workers.where(Worker.stopped_at.is_(None))
    return _summaries(connection, workers)


def find_worker(connection: Connection, worker_id: int, silence_s: float) -> WorkerSummary | None:
    """The worker with this number; None if there is none."""
    found = _summaries(connection, _workers(silence_s).where(Worker.id == worker_id))
    return found[0] if found else None


def find_workers(connection: Connection, worker_ids: Collection[int], silence_s: float) -> list[WorkerSummary]:
    """The workers with these numbers, newest first."""
    return _summaries(connection, _workers(silence_s).where(Worker.id.in_(worker_ids)).order_by(Worker.id.desc()))


def _workers(silence_s: float) -> Select[Any]:
    is_fresh = (Worker.heartbeat_at > db_time(-silence_s)).label("is_fresh")
    return select(Worker.__table__, is_fresh, db_time().label("read_at"))


def _summaries(connection: Connection, workers: Select[Any]) -> list[WorkerSummary]:
    leased = connection.execute(
        select(Shard.id, Shard.job_id, Shard.lane, Shard.lease_owner, Shard.in_flight)
        .where(Shard.state == ShardState.LEASED)
        .order_by(Shard.id)
    ).all()
    summaries = []
    for row in connection.execute(workers):
        shards = [shard for shard in leased if shard.lease_owner == row.id]
        is_dead = ProcessId(row.machine, row.pid, row.process_started).is_dead()
        summaries.append(
            WorkerSummary(
                worker_id=row.id,
                state=_state(row, is_dead, is_busy=bool(shards)),
                models=json.loads(row.models),
                shards=tuple(map(_lease, shards)),
                in_flight=sum(map(_num_in_flight, shards)),
                is_here=is_here(row.machine, row.host),
                **{name: getattr(row, name) for name in COPIED},
            )
        )
    return summaries


COPIED = (
    *("host", "pid", "parent_pid", "device", "provider", "queues", "lanes"),
    *("kv_bytes", "buffer_reuses", "buffer_allocations"),
    *("version", "node", "started_at", "heartbeat_at", "stopped_at", "read_at"),
    *("asked_to", "asked_by", "asked_at"),
)


def _lease(shard: Any) -> dict[str, int]:
    return {"shard_id": shard.id, "job_id": shard.job_id, "lane": shard.lane, "documents": _num_in_flight(shard)}


def _num_in_flight(shard: Any) -> int:
    return len(json.loads(shard.in_flight or "[]"))


REQUESTED = {WorkerRequest.PAUSE: "paused", WorkerRequest.DRAIN: "draining"}


def _state(row: Any, is_dead: bool, *, is_busy: bool) -> str:
    if row.stopped_at is not None:
        return "killed" if row.killed else "stopped"
    if is_dead:
        return "killed"
    if not row.is_fresh:
        return "stale"
    if row.asked_to is not None:
        return REQUESTED[row.asked_to]
    return "busy" if is_busy else "idle"
