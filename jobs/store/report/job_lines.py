"""The list of jobs as people read it: a line for each job, and one for all stages of a chain."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, func, or_, select

from jobs.choices import WAITING, is_split
from jobs.store.report.document_counts import DocumentCounts, sum_of
from jobs.store.report.job_summary import V_JOBS, JobSummary, conditions, summaries
from jobs.store.report.live_job import LiveJob, live_jobs
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Job

HEAD = func.coalesce(V_JOBS.c.chain, V_JOBS.c.job_id)  # the number of a line is the number of its first job
WORST_FIRST = (JobState.FAILED, JobState.CANCELLED, JobState.DONE)


@dataclass(frozen=True)
class JobLine:
    """A job, or the stages of a chain, as one line."""

    stages: tuple[LiveJob, ...]

    @property
    def first(self) -> LiveJob:
        return self.stages[0]

    @property
    def job_id(self) -> int:
        return self.first.job_id

    @property
    def noun(self) -> str:
        return "document" if self.is_chain else self.first.noun

    @property
    def is_chain(self) -> bool:
        return len(self.stages) > 1

    @cached_property
    def shown_state(self) -> str:
        """Running where a stage is; else the state of the first open stage; where all have ended, the worst."""
        states = [stage.shown_state for stage in self.stages if not stage.has_ended]
        if states:
            return JobState.RUNNING if WAITING not in states and JobState.RUNNING in states else states[0]
        ended = {stage.state for stage in self.stages}
        return next(state for state in WORST_FIRST if state in ended)

    @property
    def is_open(self) -> bool:
        """Whether documents may still be appended to it."""
        return self.first.is_open

    @property
    def reason(self) -> str | None:
        return next((stage.reason for stage in self.stages if stage.reason), None)

    @property
    def share_done(self) -> float:
        return sum(stage.share_done for stage in self.stages) / len(self.stages)

    @property
    def counts(self) -> DocumentCounts:
        """How many documents have which outcome, summed over the stages."""
        return sum_of(stage.counts for stage in self.stages)

    @property
    def is_partly_ok(self) -> bool:
        return self.shown_state == JobState.DONE and any(stage.is_partly_ok for stage in self.stages)

    @property
    def tokens(self) -> int:
        return sum(stage.tokens for stage in self.stages)

    @property
    def shown_tokens_per_s(self) -> float | None:
        """The speed of the running stages together; if none runs, the average."""
        recent = [stage.recent_tokens_per_s for stage in self.stages if stage.recent_tokens_per_s is not None]
        if recent:
            return sum(recent)
        return self.tokens / self.elapsed_s if self.elapsed_s and not self.first.was_opened else None

    @property
    def eta_s(self) -> float | None:
        """Seconds until the slowest stage ends (stages run side by side); None if an open stage has no estimate."""
        left = [stage.eta_s for stage in self.stages if not stage.has_ended and stage.shards_open]
        known = [seconds for seconds in left if seconds is not None]
        return max(known) if known and len(known) == len(left) else None

    @property
    def elapsed_s(self) -> float | None:
        """Seconds from the first start of a stage to the last end, without pauses."""
        spans: list[tuple[datetime, datetime]] = [
            (stage.started_at, stage.started_at + timedelta(seconds=stage.elapsed_s))
            for stage in self.stages
            if stage.started_at is not None and stage.elapsed_s is not None
        ]
        if not spans:
            return None
        return (max(stop for _, stop in spans) - min(start for start, _ in spans)).total_seconds()

    def as_row(self) -> dict[str, Any]:
        """The row of its first job; the row of a chain has the key `stages` too."""
        row = self.first.as_row()
        return row | {"stages": [stage.as_row() for stage in self.stages]} if self.is_chain else row


def list_job_lines(
    connection: Connection,
    silence_s: float,
    *,
    states: Collection[str] = (),
    task: str = "",
    search: str = "",
    before: int | None = None,
    limit: int | None = None,
) -> list[JobLine]:
    """Lines, newest first, of which a job is as asked: its `LiveJob.shown_state`, its task, a text in its name, model
    or source; with `before` those whose number is lower (the next page)."""
    wanted = conditions(states=states, task=task, search=search)
    heads = select(HEAD).join_from(V_JOBS, Job, Job.id == V_JOBS.c.job_id).where(*wanted).distinct()
    if before is not None:
        heads = heads.where(before > HEAD)
    numbers = connection.execute(heads.order_by(HEAD.desc()).limit(None if is_split(states) else limit)).scalars().all()
    of_lines = summaries().where(or_(V_JOBS.c.job_id.in_(numbers), V_JOBS.c.chain.in_(numbers)))
    jobs = live_jobs(connection, (JobSummary(*row) for row in connection.execute(of_lines)), silence_s)
    lines = lines_of(jobs)
    if is_split(states):
        lines = [line for line in lines if any(stage.shown_state in states for stage in line.stages)]
    return lines[:limit]


def lines_of(jobs: Iterable[LiveJob]) -> list[JobLine]:
    """Jobs by line, newest first."""
    by_head: dict[int, list[LiveJob]] = {}
    for job in sorted(jobs, key=lambda job: job.job_id):
        by_head.setdefault(job.chain or job.job_id, []).append(job)
    return [JobLine(tuple(by_head[head])) for head in sorted(by_head, reverse=True)]
