"""The shards of a job, and what happened to each."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select

from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ShardState
from jobs.store.schema.tables import Shard, ShardEvent, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSummary:
    """A shard at the moment of reading."""

    shard_id: int
    start: int  # position of the first of its documents
    stop: int
    estimated_tokens: int
    state: str
    available_at: datetime
    waits_s: float  # since it became ready
    worker_id: int | None  # that holds, or held, the lease
    host: str | None  # of that worker
    lane: int | None
    epoch: int
    lease_left_s: float | None  # below 0: the lease has run out; None: it is not leased
    in_flight: int  # documents that are being computed
    attempts: int
    crashes: int

    @property
    def documents(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An entry of the log of a shard: leased, recorded, released ..."""

    event_id: int
    shard_id: int
    at: datetime
    event: str
    epoch: int
    worker_id: int | None
    documents: int | None
    detail: str | None


def list_shards(
    connection: Connection, job_id: int, state: str, *, after: int = 0, limit: int = 50
) -> list[ShardSummary]:
    """Shards in this state in the order of the corpus, from the first one behind shard `after`."""
    rows = connection.execute(
        select(Shard.__table__, Worker.host, db_time().label("now"))
        .outerjoin(Worker, Worker.id == Shard.lease_owner)
        .where(Shard.job_id == job_id, Shard.state == state, Shard.id > after)
        .order_by(Shard.id)
        .limit(limit)
    )
    return [_summary(row) for row in rows]


def next_shard_id(connection: Connection, job_id: int) -> int | None:
    """The shard of the job that is leased next."""
    ready = select(Shard.id).where(Shard.job_id == job_id, Shard.state == ShardState.READY).order_by(Shard.id).limit(1)
    return connection.execute(ready).scalar()


def shard_events(connection: Connection, job_id: int, shard_id: int, limit: int = 100) -> list[Event]:
    """The newest events of one shard, newest first."""
    return _newest(connection, limit, ShardEvent.job_id == job_id, ShardEvent.shard_id == shard_id)


def recent_events(connection: Connection, job_id: int, limit: int = 30) -> list[Event]:
    """The newest events of all shards of a job, newest first."""
    return _newest(connection, limit, ShardEvent.job_id == job_id)


def _newest(connection: Connection, limit: int, *which: ColumnElement[bool]) -> list[Event]:
    id_, *columns = ShardEvent.__table__.c
    columns = [column for column in columns if column.name != "job_id"]
    newest = select(id_.label("event_id"), *columns).where(*which).order_by(ShardEvent.id.desc()).limit(limit)
    return [Event(**row) for row in connection.execute(newest).mappings()]


def _summary(row: Row[Any]) -> ShardSummary:
    is_leased = row.state == ShardState.LEASED and row.lease_until is not None
    return ShardSummary(
        shard_id=row.id,
        start=row.start,
        stop=row.stop,
        estimated_tokens=row.estimated_tokens,
        state=row.state,
        available_at=row.available_at,
        waits_s=max(0.0, (row.now - row.available_at).total_seconds()),
        worker_id=row.lease_owner,
        host=row.host,
        lane=row.lane,
        epoch=row.lease_epoch,
        lease_left_s=(row.lease_until - row.now).total_seconds() if is_leased else None,
        in_flight=len(json.loads(row.in_flight or "[]")) if is_leased else 0,
        attempts=row.attempts,
        crashes=row.crashes,
    )
