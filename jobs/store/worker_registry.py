"""The registry of worker processes: for display, and to see at once that a process of this machine has died."""

import socket
from collections.abc import Collection
from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, and_, case, func, insert, null, or_, select, true, update

from jobs import __version__
from jobs.queues import CPU
from jobs.store.database import Database
from jobs.store.queue.leases import RenewedLeases, renew
from jobs.store.queue.work import Work
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import WorkerRequest
from jobs.store.schema.tables import Worker
from jobs.system.process import ProcessId, this_machine

UNKNOWN = ""  # a machine id that matches none


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """What a worker keeps in memory, as its heartbeat reports it."""

    models: str = "{}"  # JSON: model -> seconds it took to load
    kv_bytes: int = 0
    buffer_allocations: int = 0
    buffer_reuses: int = 0


def register(
    database: Database,
    *,
    device: str,
    provider: str,
    lanes: int,
    queues: str = CPU,
    node: str | None = None,
    parent_pid: int | None = None,
    replaces: int | None = None,
) -> int:
    """Register this process; returns the worker's id. A request to the process that it `replaces` passes on to it."""
    me = ProcessId.current()
    with database.writing() as connection:
        asked = select(Worker.asked_to, Worker.asked_by, Worker.asked_at).where(Worker.id == replaces)
        inherited = dict(connection.execute(asked).mappings().one_or_none() or {})
        return int(
            connection.execute(
                insert(Worker)
                .values(
                    host=socket.gethostname(),
                    machine=me.machine,
                    pid=me.pid,
                    parent_pid=parent_pid,
                    process_started=me.started,
                    version=__version__,
                    device=device,
                    provider=provider,
                    lanes=lanes,
                    queues=queues,
                    node=node,
                    started_at=db_time(),
                    heartbeat_at=db_time(),
                    **asdict(WorkerStats()),
                    **inherited,
                )
                .returning(Worker.id)
            ).scalar_one()
        )


def record_heartbeat(
    database: Database, worker_id: int, stats: WorkerStats, lease_s: float = 0.0, works: Collection[Work] = ()
) -> tuple[RenewedLeases, WorkerRequest | None]:
    """Record in one transaction that the worker is alive, its stats, and that its lanes keep their leases; returns the
    leases that it still has, and what is asked of it: None if the database does not know it. If it was marked as
    stopped, its process was wrongly taken for dead: the mark is removed, and its process is not checked again."""
    was_misjudged = Worker.stopped_at.is_not(None)
    with database.writing() as connection:
        renewed = renew(connection, lease_s, works)
        known = connection.execute(
            update(Worker)
            .where(Worker.id == worker_id)
            .values(
                heartbeat_at=db_time(),
                stopped_at=None,
                killed=False,
                machine=case((was_misjudged, UNKNOWN), else_=Worker.machine),
                **asdict(stats),
            )
            .returning(Worker.asked_to)
        ).one_or_none()
    return renewed, None if known is None else WorkerRequest(known.asked_to or WorkerRequest.WORK)


def ask(database: Database, worker_id: int, request: WorkerRequest, actor: str) -> None:
    """Store a request to a worker, which reads it with its next heartbeat."""
    asked: dict[str, object] = {"asked_to": request.value, "asked_by": actor, "asked_at": db_time()}
    if request is WorkerRequest.WORK:
        asked = dict.fromkeys(asked, null())
    with database.writing() as connection:
        connection.execute(update(Worker).where(Worker.id == worker_id).values(asked))


def ask_all_to_drain(
    database: Database, actor: str, *, hosts: Collection[str] | None = None, replaced_within_s: float = 60.0
) -> None:
    """Ask the running workers of these hosts (in lower case; None: of all) to drain, in one statement. A worker that
    registers afterwards is not asked, unless it replaces a process that was: so processes are asked, too, that died
    within the last `replaced_within_s`. An earlier request to drain stays as it is."""
    may_be_replaced = and_(Worker.killed, Worker.stopped_at > db_time(-replaced_within_s))
    with database.writing() as connection:
        connection.execute(
            update(Worker)
            .where(
                or_(Worker.stopped_at.is_(None), may_be_replaced),
                Worker.asked_to.is_distinct_from(WorkerRequest.DRAIN.value),
                true() if hosts is None else func.lower(Worker.host).in_(hosts),
            )
            .values(asked_to=WorkerRequest.DRAIN.value, asked_by=actor, asked_at=db_time())
        )


def mark_stopped(database: Database, worker_ids: list[int], *, killed: bool = False) -> None:
    """Mark workers as stopped, or as `killed`: nobody had asked them to stop."""
    with database.writing() as connection:
        connection.execute(
            update(Worker)
            .where(Worker.id.in_(worker_ids), Worker.stopped_at.is_(None))
            .values(stopped_at=db_time(), killed=killed)
        )


def dead_workers(database: Database) -> list[int]:
    """Workers of this machine that are not marked as stopped and whose process has ended."""
    return [worker_id for worker_id, process in _here(database) if process.is_dead()]


def processes_here(database: Database) -> list[ProcessId]:
    """The worker processes on this machine that are not marked as stopped."""
    return [process for _, process in _here(database)]


def any_alive(database: Database, silence_s: float) -> bool:
    """Whether any worker has a heartbeat in the last `silence_s` and a process that is not known to be dead."""
    return any(
        not process.is_dead() for _, process in _not_stopped(database, Worker.heartbeat_at > db_time(-silence_s))
    )


def _here(database: Database) -> list[tuple[int, ProcessId]]:
    # Every worker asks every few seconds, so a large fleet must not read itself each time.
    return _not_stopped(database, Worker.machine == this_machine())


def _not_stopped(database: Database, *which: ColumnElement[bool]) -> list[tuple[int, ProcessId]]:
    columns = (Worker.id, Worker.machine, Worker.pid, Worker.process_started)
    with database.reading() as connection:
        rows = connection.execute(select(*columns).where(Worker.stopped_at.is_(None), *which)).all()
    return [(row.id, ProcessId(row.machine, row.pid, row.process_started)) for row in rows]
