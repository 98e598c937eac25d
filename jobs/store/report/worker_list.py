"""The workers and what they do now: for `kvjobs worker ls` and `ping`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from jobs.process import ProcessId, is_here
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Shard, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSummary:
    """One worker process, with its leases."""

    worker_id: int
    state: str  # busy | idle | stale | stopped
    host: str
    pid: int
    device: str
    provider: str
    queues: str
    lanes: int
    models: Mapping[str, float]  # warm -> seconds it took to load
    shards: tuple[Mapping[str, int], ...]  # leased: shard_id, job_id, lane
    in_flight: int  # documents that it computes now
    kv_bytes: int
    buffer_reuses: int
    version: str
    node: str | None
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    is_here: bool  # a process of this machine

    @property
    def is_alive(self) -> bool:
        return self.state in ("busy", "idle")

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


WORKER_FIELDS = tuple(name for name in WorkerSummary.__dataclass_fields__ if name != "is_here")


def list_workers(connection: Connection, silence_s: float, *, everything: bool = False) -> list[WorkerSummary]:
    """Workers, newest first; stopped ones only with `everything`. A worker without a heartbeat for `silence_s` is
    stale."""
    is_fresh = (Worker.heartbeat_at > db_time(-silence_s)).label("is_fresh")
    workers = select(Worker.__table__, is_fresh).order_by(Worker.id.desc())
    if not everything:
        workers = workers.where(Worker.stopped_at.is_(None))
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
                shards=tuple({"shard_id": s.id, "job_id": s.job_id, "lane": s.lane} for s in shards),
                in_flight=sum(len(json.loads(shard.in_flight or "[]")) for shard in shards),
                is_here=is_here(row.machine, row.host),
                **{name: getattr(row, name) for name in COPIED},
            )
        )
    return summaries


COPIED = (
    *("host", "pid", "device", "provider", "queues", "lanes", "kv_bytes", "buffer_reuses", "version", "node"),
    *("started_at", "heartbeat_at", "stopped_at"),
)


def _state(row: Any, is_dead: bool, *, is_busy: bool) -> str:
    if row.stopped_at is not None:
        return "stopped"
    if is_dead or not row.is_fresh:
        return "stale"
    return "busy" if is_busy else "idle"
