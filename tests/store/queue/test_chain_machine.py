"""A model-based test of chains: in any order of events a stage has what the stage before it handed on, nothing else.

KVJOBS_TEST_LONG=40 pytest tests/store/queue/test_chain_machine.py

tries 800 sequences on SQLite and 400 on PostgreSQL instead of 2 and 1.
"""

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, rule
from sqlalchemy import select

from jobs.errors import SpecError, StaleLease
from jobs.stage import FilterSpec, Stage
from jobs.store.database import Database
from jobs.store.jobs import cancel, pause, resume, retry
from jobs.store.queue import deaths, leases
from jobs.store.queue.work import Work
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema.result_tables import Pass
from jobs.store.schema.tables import Document, Job
from jobs.submission import shards
from tests.databases import empty, without_fsync
from tests.repetition import times
from tests.small_chains import KEPT, LINES, SCORED, begin, finish, finish_all
from tests.store.queue.test_lease_machine import empty_database

# Translated, scored, filtered, scored again, filtered again: what a filter does not keep is skipped behind it.
STAGES = (SCORED, KEPT, SCORED, Stage(FilterSpec("perplexity < 50 and position > 0"), reads=1))
POSITIONS = list(range(len(LINES) + 1))
KEPT_AT_LAST = [4, 6]  # of an even position, not `fr`, not the line that cannot be read, not the first


class ChainMachine(RuleBasedStateMachine):
    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.database = self.open()
        kept, shards.SHARD_DOCUMENTS = shards.SHARD_DOCUMENTS, 2
        try:
            self.chain = begin(self.database, Path(self.folder.name), *STAGES, bad_line=True)
        finally:
            shards.SHARD_DOCUMENTS = kept

    def open(self) -> Database:
        raise NotImplementedError

    @rule(target=held, in_time=st.booleans())
    def lease(self, in_time: bool) -> object:
        work = leases.lease(self.database, 1, 0, 60.0 if in_time else -1.0)
        return work if work is not None and work.batches else multiple()

    @rule(work=consumes(held), failing=st.frozensets(st.sampled_from(POSITIONS), max_size=2))
    def record(self, work: Work, failing: frozenset[int]) -> None:
        with contextlib.suppress(StaleLease):
            finish(self.database, work, failing)

    @rule(work=consumes(held))
    def release(self, work: Work) -> None:
        leases.release(self.database, work)

    @rule()
    def expire(self) -> None:
        deaths.expire(self.database)

    @rule()
    def the_worker_dies(self) -> None:
        deaths.expire_workers(self.database, [1])

    @rule(verb=st.sampled_from([pause, resume, cancel]), stage=st.integers(0, len(STAGES)))
    def a_user_acts(self, verb: object, stage: int) -> None:
        with contextlib.suppress(SpecError):
            verb(self.database, self.chain[stage])  # type: ignore[operator]

    @rule(stage=st.integers(0, len(STAGES)))
    def retry(self, stage: int) -> None:
        retry(self.database, self.chain[stage])

    @rule()
    def all_is_retried_and_ends(self) -> None:
        """Whatever happened, in the end each stage has each document once, as in an undisturbed run."""
        deaths.expire_workers(self.database, [1])
        retry(self.database, self.chain[0])
        with contextlib.suppress(SpecError):
            resume(self.database, self.chain[0])
        finish_all(self.database)
        with self.database.reading() as connection:
            states = connection.execute(select(Job.state).order_by(Job.id)).scalars().all()
            found = connection.execute(select(Document.job_id, Document.position)).all()
            of_last = select(Pass.position).where(Pass.job_id == self.chain[-1]).order_by(Pass.position)
            kept = connection.execute(of_last).scalars().all()
        assert set(states) == {"done"}
        assert sorted(map(tuple, found)) == [(job, position) for job in self.chain for position in POSITIONS]
        assert kept == KEPT_AT_LAST

    @rule()
    def every_stage_equals_a_recount_and_what_the_stage_before_handed_on(self) -> None:
        """A rule and the end of each sequence, not an invariant: it takes as long as all other rules together."""
        for job in self.chain:
            with self.database.reading() as connection:
                assert find_contradictions(connection, job) == []


class OnSqlite(ChainMachine):
    def open(self) -> Database:
        return without_fsync(Database.open(f"sqlite:///{shutil.copy(empty_database(), self.folder.name)}"))

    def teardown(self) -> None:
        self.every_stage_equals_a_recount_and_what_the_stage_before_handed_on()
        self.database.close()
        self.folder.cleanup()


class OnPostgresql(ChainMachine):
    shared: ClassVar[Database]

    def open(self) -> Database:
        return self.shared

    def teardown(self) -> None:
        self.every_stage_equals_a_recount_and_what_the_stage_before_handed_on()
        empty(self.database)
        self.folder.cleanup()


@pytest.fixture
def _the_server(postgresql: Database) -> None:
    OnPostgresql.shared = postgresql


SETTINGS = settings(
    max_examples=times(2),
    stateful_step_count=20,
    phases=[Phase.generate],  # shrinking takes minutes on a database; a failure prints its steps unshrunk
    suppress_health_check=list(HealthCheck),
)
TestOnSqlite, TestOnPostgresql = OnSqlite.TestCase, OnPostgresql.TestCase
TestOnSqlite.settings = SETTINGS
TestOnPostgresql.settings = settings(SETTINGS, max_examples=times(1))
TestOnSqlite.pytestmark = [pytest.mark.long]
TestOnPostgresql.pytestmark = [pytest.mark.long, pytest.mark.usefixtures("_the_server")]
