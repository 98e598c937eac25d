"""A model-based test of the lease machine: whatever order things happen in, no document is lost or counted twice.

    KVJOBS_SEQUENCES=5000 pytest tests/unit/store/test_machine.py

tries so many sequences on each database instead of a few.
"""

import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from sqlalchemy import select

from jobs.errors import SpecError, StaleLease
from jobs.outcome import Failed, Quarantined
from jobs.store import leases, tables
from jobs.store.database import Database
from jobs.store.jobs import cancel, pause, resume, retry
from jobs.store.leases import Work
from jobs.store.record import record
from tests.postgresql import empty
from tests.unit.store.conftest import insert_job, translated

DOCUMENTS, PER_SHARD, TOKENS = 7, 3, 2_000  # two documents a batch, two batches a shard
WORKERS = st.integers(1, 3)


@functools.cache
def empty_database() -> str:
    """Migrating takes ten times as long as a whole sequence of rules, so it is done once."""
    path = Path(tempfile.mkdtemp()) / "kvjobs.db"
    Database.open(f"sqlite:///{path}").close()
    return str(path)


class LeaseMachine(RuleBasedStateMachine):
    held = Bundle("held")  # (work, next batch), for as long as some worker believes in it

    def __init__(self) -> None:
        super().__init__()
        self.database = self.open()
        self.job = insert_job(self.database, DOCUMENTS, PER_SHARD, tokens=TOKENS, rejected=(4,))
        self.accepted: dict[int, str] = {}  # position -> the text of the first accepted result

    def open(self) -> Database:
        raise NotImplementedError

    @rule(target=held, worker=WORKERS, in_time=st.booleans())
    def lease_a_shard(self, worker: int, in_time: bool) -> object:
        return self.lease(worker, in_time)

    def lease(self, worker: int, in_time: bool) -> object:
        work = leases.lease(self.database, worker, 0, 60.0 if in_time else -1.0)
        return (work, 0) if work is not None and work.batches else multiple()

    @rule(target=held, sleeper=held)
    def take_over(self, sleeper: tuple[Work, int]) -> object:
        """A worker sleeps past its lease, and another takes its shard; the sleeper does not know."""
        if self.epoch(sleeper[0]) == sleeper[0].epoch:
            leases.expire_workers(self.database, [sleeper[0].worker_id])
        return self.lease(worker=1, in_time=True)

    @rule(target=held, held=consumes(held), fails=st.sampled_from([None, Failed, Quarantined]), twice=st.booleans())
    def record(self, held: tuple[Work, int], fails: Any, twice: bool) -> object:
        work, index = held
        batch = work.batches[index]
        text = f"epoch {work.epoch} of shard {work.shard_id}"
        outcomes = [fails("a-code", "x") if fails and i == 0 else translated(text) for i in range(len(batch))]
        try:
            for _ in range(1 + twice):
                record(self.database, work, index, outcomes, learned={}, timings=[], lease_s=60.0)
        except StaleLease:
            assert self.epoch(work) != work.epoch, "an accepted epoch was refused"
            return multiple()
        assert self.epoch(work) == work.epoch, "a stale epoch was accepted"
        for document, outcome in zip(batch, outcomes, strict=True):
            if not isinstance(outcome, (Failed, Quarantined)):
                assert document.position not in self.accepted, "a document was accepted twice"
                self.accepted[document.position] = text
        return (work, index + 1) if index + 1 < len(work.batches) else multiple()

    @rule(held=consumes(held))
    def release(self, held: tuple[Work, int]) -> None:
        leases.release(self.database, held[0])

    @rule(held=consumes(held))
    def forget(self, held: tuple[Work, int]) -> None:
        """The worker died without a word; a later rule may or may not notice."""

    @rule(worker=WORKERS)
    def heartbeat(self, worker: int) -> None:
        leases.heartbeat(self.database, worker, 60.0, range(1, 4))

    @rule()
    def expire(self) -> None:
        leases.expire(self.database)

    @rule(worker=WORKERS)
    def worker_dies(self, worker: int) -> None:
        leases.expire_workers(self.database, [worker])

    @rule(verb=st.sampled_from([pause, resume, cancel]))
    def a_person_acts(self, verb: object) -> None:
        try:
            verb(self.database, self.job)  # type: ignore[operator]
        except SpecError:
            assert self.state() in ("done", "cancelled")

    @rule()
    def retry(self) -> None:
        retry(self.database, self.job)

    @invariant()
    def every_document_is_in_one_state_and_the_counters_are_a_recount(self) -> None:
        with self.database.reading() as connection:
            documents = connection.execute(
                select(tables.Document.position, tables.Document.status, tables.Document.estimated_tokens)
            ).all()
            found = connection.execute(select(tables.Translation.position, tables.Translation.text))
            results = {row.position: row.text for row in found}
            counts = connection.execute(select(tables.JobCounts.__table__)).one()
            shards = connection.execute(select(tables.Shard.__table__)).all()
        assert results == self.accepted
        assert not [d for d in documents if d.status is not None and d.position in results]
        for status in ("rejected", "failed", "quarantined", "cancelled"):
            assert getattr(counts, status) == sum(d.status == status for d in documents)
        assert counts.succeeded == len(results)
        ended = [d for d in documents if d.status not in (None, "rejected") or d.position in results]
        assert counts.estimated_done == sum(d.estimated_tokens for d in ended)
        waiting = [d.position for d in documents if d.status is None and d.position not in results]
        open_shards = [s for s in shards if s.state in ("ready", "leased")]
        assert counts.shards_open == len(open_shards)
        for position in waiting:
            assert any(s.start <= position < s.stop for s in open_shards), f"document {position} is lost"
        assert (self.state() in ("done", "cancelled")) == (not open_shards)

    def epoch(self, work: Work) -> int:
        with self.database.reading() as connection:
            shard = tables.Shard
            return int(connection.execute(select(shard.lease_epoch).where(shard.id == work.shard_id)).scalar_one())

    def state(self) -> str:
        with self.database.reading() as connection:
            return str(connection.execute(select(tables.Job.state)).scalar_one())


class OnSqlite(LeaseMachine):
    def open(self) -> Database:
        self.folder = tempfile.TemporaryDirectory()
        return Database.open(f"sqlite:///{shutil.copy(empty_database(), self.folder.name)}")

    def teardown(self) -> None:
        self.database.close()
        self.folder.cleanup()


class OnPostgresql(LeaseMachine):
    shared: ClassVar[Database]

    def open(self) -> Database:
        return self.shared

    def teardown(self) -> None:
        empty(self.database)


@pytest.fixture
def _the_server(postgresql: Database) -> None:
    OnPostgresql.shared = postgresql


SEQUENCES = int(os.environ.get("KVJOBS_SEQUENCES", "0"))
SETTINGS = settings(
    max_examples=SEQUENCES or 40,
    stateful_step_count=30,
    deadline=None,
    derandomize=not SEQUENCES,
    database=None,
    phases=[Phase.generate],  # shrinking takes minutes on a database; a failure prints its steps as they are
    suppress_health_check=list(HealthCheck),
)
TestOnSqlite, TestOnPostgresql = OnSqlite.TestCase, OnPostgresql.TestCase
TestOnSqlite.settings = TestOnPostgresql.settings = SETTINGS
TestOnSqlite.pytestmark = [pytest.mark.timeout(120 + 2 * SEQUENCES)]
TestOnPostgresql.pytestmark = [pytest.mark.timeout(120 + 2 * SEQUENCES), pytest.mark.usefixtures("_the_server")]
