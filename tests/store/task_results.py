"""Results of each task, as a worker records them."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from jobs.answers import Answers
from jobs.outcome import Outcome, RankedCandidate, Ranking, Score
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.queue.record import record
from jobs.store.queue.work import Work
from jobs.store.schema import tables
from jobs.store.schema.results import RESULTS
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.rows import translated

LEASE_S = 60.0


def scored(nll_sum: float = 6.0, num_tokens: int = 3, **how: Any) -> Score:
    return Score(nll_sum=nll_sum, num_tokens=num_tokens, num_words=2, num_bytes=12, **how)


def ranked() -> Ranking:
    best = RankedCandidate("b", 1, -0.5, 2.0)
    kept = RankedCandidate("a", 2, None, None, error="it holds no text")
    return Ranking(candidates=(best, kept), num_tokens=7, num_computed=20, num_shared=4)


@dataclass(frozen=True)
class Kind:
    """A task, with an example of its result."""

    spec: JobSpec
    outcome: Outcome
    counters: tuple[int, int]  # source and target tokens of one result

    @property
    def table(self) -> Any:
        return RESULTS[self.spec.task]


def spec_of(task: Task, options: Any) -> JobSpec:
    return JobSpec(task=task, model="tiny", model_revision="r1", options=options)


KINDS = [
    Kind(spec_of(Task.TRANSLATE, TranslateOptions()), translated(), (5, 4)),
    Kind(spec_of(Task.SCORE, ScoreOptions()), scored(num_source_tokens=2), (2, 3)),
    Kind(spec_of(Task.RERANK, RerankOptions()), ranked(), (20, 7)),
]
SCORE, RERANK = KINDS[1].spec, KINDS[2].spec


def take(database: Database, *, lease_s: float = LEASE_S) -> Work:
    work = leases.lease(database, 1, 0, lease_s)
    assert work is not None
    return work


def write(database: Database, work: Work, *outcomes: Outcome) -> None:
    record(database, work, 0, Answers(outcomes), lease_s=LEASE_S)


def counts(database: Database, job: int) -> Any:
    with database.reading() as connection:
        return connection.execute(select(tables.JobCounts.__table__).where(tables.JobCounts.job_id == job)).one()
