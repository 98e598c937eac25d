"""A job as it stands at this moment: whether a worker is there for it, how fast it is now, and how long it may take.

What shows a job that runs reads it here, so that pages and commands say the same.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select

from jobs.choices import AWAITING, WAITING, is_split
from jobs.store.queue.leasable import leasable
from jobs.store.queue.waiting import LiveWorker, live_workers, serves
from jobs.store.report.job_summary import SUMMARY_FIELDS, JobSummary, find_job, find_jobs, list_jobs
from jobs.store.schema.current_sums import current
from jobs.store.schema.rollup_tables import MinuteSums
from jobs.store.schema.states import JobState, ShardState
from jobs.store.schema.tables import Job, Shard

WINDOW_S = 60.0
LONGER_S = 600.0  # where nothing was recorded in the window: a batch of a large model takes minutes
MINUTE_S = 60.0
MOST_RUNNING = 1000  # unfinished jobs, among which those without a live worker are looked for

Minutes = Sequence[tuple[datetime, int]]  # start of a minute, tokens that were recorded in it


@dataclass(frozen=True, kw_only=True)
class LiveJob(JobSummary):
    """A job with what changes without a write to it: whether workers are live, and its recent speed."""

    has_worker: bool  # a live worker takes its shards, or has one; of a job that needs none: True
    recent_tokens_per_s: float | None  # over the last minute; None: it is not running, or has not begun
    pace: float | None  # tokens per second, by which the time left is estimated; None: unknown

    @property
    def shown_state(self) -> str:
        """The state as it is displayed and filtered by: the recorded one, or `waiting`: it has work, and no live
        worker takes it; or `awaiting`: it is open, and has no work."""
        shown = self.recorded_state
        if shown != JobState.RUNNING:
            return shown
        if self.awaits_documents:
            return AWAITING
        return WAITING if self.shards_open and not self.has_worker else shown

    @property
    def eta_s(self) -> float | None:
        """Seconds that remain at the pace of the last minutes; None while the job is not running, no worker is there
        for it, nothing was recorded lately, or it is open: nobody knows what comes."""
        if (
            self.is_open
            or self.shown_state != JobState.RUNNING
            or not (self.pace and self.tokens and self.estimated_done)
        ):
            return None
        return self.estimated_left * self.tokens / self.estimated_done / self.pace

    def as_row(self) -> dict[str, Any]:
        return super().as_row() | {"shown_state": self.shown_state}

    def as_object(self) -> dict[str, Any]:
        """The row, and how the corpus was read: a job as programs get it."""
        return self.as_row() | {"reading": json.loads(self.reading) if self.reading else None}

    @property
    def shown_tokens_per_s(self) -> float | None:
        """The speed of the last minute for a job that runs, else the average."""
        return self.tokens_per_s if self.recent_tokens_per_s is None else self.recent_tokens_per_s


LIVE_FIELDS = (*SUMMARY_FIELDS, "shown_state", "has_worker", "recent_tokens_per_s", "flags")


def find_live_job(connection: Connection, reference: str, silence_s: float) -> LiveJob:
    """Find a job as `find_job` does. A worker without a heartbeat for `silence_s` counts as gone."""
    return live_jobs(connection, [find_job(connection, reference)], silence_s)[0]


def list_live_jobs(
    connection: Connection,
    silence_s: float,
    *,
    states: Collection[str] = (),
    limit: int | None = None,
    before: int | None = None,
) -> list[LiveJob]:
    """List jobs as `list_jobs` does; with `states` those whose `LiveJob.shown_state` is among them."""
    most = None if is_split(states) else limit
    found = live_jobs(connection, list_jobs(connection, states=states, limit=most, before=before), silence_s)
    return [job for job in found if not states or job.shown_state in states][:limit]


def list_unserved_jobs(connection: Connection, silence_s: float) -> list[LiveJob]:
    """The jobs that wait for a worker, oldest first. Reads the jobs that run, by the index of states."""
    running = connection.execute(select(Job.id).where(leasable()).order_by(Job.id).limit(MOST_RUNNING)).scalars().all()
    found = live_jobs(connection, find_jobs(connection, running), silence_s)
    return [job for job in reversed(found) if job.shown_state == WAITING]


def live_jobs(connection: Connection, jobs: Iterable[JobSummary], silence_s: float) -> list[LiveJob]:
    """These jobs with what changes with time, read at the moment of the connection's snapshot."""
    jobs = list(jobs)
    running = {job.job_id for job in jobs if job.recorded_state == JobState.RUNNING}
    workers = list(live_workers(connection, silence_s)) if running else []
    held = _held_by(connection, [worker.worker_id for worker in workers])
    minutes = _minutes(connection, {job.job_id: job for job in jobs if job.job_id in running})
    return [
        _live(job, minutes.get(job.job_id, ()), job.job_id in running, job.job_id in held or _is_served(job, workers))
        for job in jobs
    ]


def _live(job: JobSummary, minutes: Minutes, is_running: bool, has_worker: bool) -> LiveJob:
    recent = speed_of(minutes, job, WINDOW_S) if is_running else None
    values = {name: getattr(job, name) for name in JobSummary.__dataclass_fields__}
    return LiveJob(
        **values,
        has_worker=has_worker or not is_running,
        recent_tokens_per_s=recent,
        pace=recent or (speed_of(minutes, job, LONGER_S) if is_running else None),
    )


def speed_of(minutes: Minutes, job: JobSummary, window_s: float) -> float | None:
    """Tokens per second of a job over its last `window_s`, from sums of minutes: of the minute in which the window
    begins, the part that lies in it. None for a job that has not begun."""
    if job.started_at is None:
        return None
    start = max(job.read_at - timedelta(seconds=window_s), job.started_at)
    seconds = (job.read_at - start).total_seconds()
    if seconds <= 0:
        return None
    return sum(tokens * _share(minute, start, job.started_at) for minute, tokens in minutes) / seconds


def _share(minute: datetime, start: datetime, started_at: datetime) -> float:
    """The part of a minute that is behind `start`; all of it where nothing of the job was before."""
    left_s = (minute - start).total_seconds() + MINUTE_S
    return 1.0 if start == started_at else min(1.0, max(0.0, left_s / MINUTE_S))


def _minutes(connection: Connection, jobs: Mapping[int, JobSummary]) -> dict[int, list[tuple[datetime, int]]]:
    """The tokens of each job in its last minutes."""
    if not jobs:
        return {}
    since = next(iter(jobs.values())).read_at - timedelta(seconds=LONGER_S + MINUTE_S)
    sums = current(MinuteSums)
    rows = connection.execute(
        select(sums.job_id, sums.minute, sums.source_tokens, sums.target_tokens).where(
            sums.job_id.in_(jobs), sums.minute > since
        )
    )
    found: dict[int, list[tuple[datetime, int]]] = {}
    for row in rows:
        tokens = int(row._mapping[jobs[row.job_id].kind.tokens])  # `JobSummary.tokens`
        found.setdefault(row.job_id, []).append((row.minute, tokens))
    return found


def _held_by(connection: Connection, worker_ids: Sequence[int]) -> set[int]:
    """The jobs of which these workers have a shard."""
    if not worker_ids:
        return set()
    leased = select(Shard.job_id).where(Shard.state == ShardState.LEASED, Shard.lease_owner.in_(worker_ids))
    return set(connection.execute(leased.distinct()).scalars())


def _is_served(job: JobSummary, workers: Sequence[LiveWorker]) -> bool:
    if not job.kind.has_model:
        return True
    return any(worker.takes_work and serves(worker.queues, job.queue, job.model) for worker in workers)
