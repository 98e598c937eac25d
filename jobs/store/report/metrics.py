"""The numbers that a monitoring system collects, from counters and rollups alone: as quick with ten million documents
as with ten."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, column, select, table, text

from jobs.outcome import STAGE
from jobs.store.queue.deltas import count_deltas
from jobs.store.report.job_summary import find_jobs
from jobs.store.report.live_job import LiveJob, live_jobs
from jobs.store.report.model_usage import V_PHASES
from jobs.store.report.waiting_work import WaitingWork, waiting_work
from jobs.store.report.worker_list import WorkerSummary, list_workers
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import ENDED_STATES, JobState
from jobs.store.schema.tables import Job

MAX_JOBS = 100  # with series of their own: open jobs, and the newest that ended in the last day
ENDED_FOR_S = 86_400.0
V_FAILURES = table("v_failures", *(column(name) for name in ("job_id", "status", "error_code", "documents")))
OPEN_STATES = tuple(state for state in JobState if state not in ENDED_STATES)
SIZE = {
    "sqlite": "SELECT c.page_count * s.page_size FROM pragma_page_count() c, pragma_page_size() s",
    "postgresql": "SELECT pg_database_size(current_database())",
}


@dataclass(frozen=True, slots=True)
class PhaseTotal:
    """The calls of one phase of a job."""

    job_id: int
    phase: str
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FailureTotal:
    """The documents of a job without a result, for one reason."""

    job_id: int
    status: str
    code: str
    documents: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """All metrics, read at one moment."""

    jobs: Sequence[LiveJob]
    phases: Sequence[PhaseTotal]
    failures: Sequence[FailureTotal]
    workers: Sequence[WorkerSummary]  # that have not stopped
    waiting: Sequence[WaitingWork]
    database_bytes: int
    unfolded: int  # recorded batches that are not folded into the sums of their jobs


def read_metrics(connection: Connection, silence_s: float) -> Metrics:
    """All numbers, of one snapshot; a worker without a heartbeat for `silence_s` is stale."""
    job_ids = _job_ids(connection)
    return Metrics(
        jobs=live_jobs(connection, find_jobs(connection, job_ids), silence_s),
        phases=list(_phases(connection, job_ids)),
        failures=list(_failures(connection, job_ids)),
        workers=list_workers(connection, silence_s),
        waiting=waiting_work(connection),
        database_bytes=int(connection.execute(text(SIZE[connection.dialect.name])).scalar_one()),
        unfolded=count_deltas(connection),
    )


def _job_ids(connection: Connection) -> list[int]:
    """Open jobs by the index of states, ended ones among the newest rows: neither reads every job."""
    opened = select(Job.id).where(Job.state.in_(OPEN_STATES)).order_by(Job.id.desc()).limit(MAX_JOBS)
    newest = select(Job.id, Job.finished_at).order_by(Job.id.desc()).limit(MAX_JOBS).subquery()
    ended = select(newest.c.id).where(newest.c.finished_at > db_time(-ENDED_FOR_S))
    found = {*connection.execute(opened).scalars(), *connection.execute(ended).scalars()}
    return sorted(found, reverse=True)[:MAX_JOBS]


def _phases(connection: Connection, job_ids: Sequence[int]) -> Iterator[PhaseTotal]:
    statement = select(V_PHASES).where(V_PHASES.c.job_id.in_(job_ids)).order_by(V_PHASES.c.job_id, V_PHASES.c.phase)
    statement = statement.where(~V_PHASES.c.phase.startswith(STAGE))  # else a sum over phases would count them twice
    for row in connection.execute(statement):
        yield PhaseTotal(row.job_id, row.phase, int(row.calls), float(row.seconds))


def _failures(connection: Connection, job_ids: Sequence[int]) -> Iterator[FailureTotal]:
    statement = select(V_FAILURES).where(V_FAILURES.c.job_id.in_(job_ids))
    statement = statement.order_by(V_FAILURES.c.job_id, V_FAILURES.c.status, V_FAILURES.c.error_code)
    for row in connection.execute(statement):
        yield FailureTotal(row.job_id, row.status, row.error_code or "", int(row.documents))
