"""A model-based test of the lease machine: whatever order things happen in, no document is lost or counted twice, and
nobody's work ends up under the numbers of somebody else.

    KVJOBS_TEST_LONG=40 pytest tests/store/test_lease_machine.py

tries 4,800 sequences on each database instead of 12.
"""

import contextlib
import functools
import itertools
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from sqlalchemy import select

from jobs.errors import SpecError, StaleLease
from jobs.outcome import Failed, Quarantined, StepTiming
from jobs.store import lease_expiry, leases
from jobs.store.database import Database
from jobs.store.jobs import cancel, pause, resume, retry
from jobs.store.prune import prune_job
from jobs.store.record import record
from jobs.store.report.rollup_recount import find_wrong_rollups
from jobs.store.schema import tables
from jobs.store.work import Work
from tests.databases import empty
from tests.repetition import times
from tests.rows import insert_waiting_job, translated
from tests.store.dump import Dump

DOCUMENTS, PER_SHARD, TOKENS = 7, 3, 2_000  # two documents a batch, two batches a shard
WORKERS = st.integers(1, 3)
TIMINGS = [StepTiming("encode", 0, 2, 20, 0, 0.5), *(StepTiming("decode", n, 2, 2, 31 + n, 0.25) for n in range(3))]


@dataclass(frozen=True)
class Held:
    """A lease that some worker believes in. The model tells leases apart by a number of its own: whatever numbers and
    tokens the store gives them is not for the model to trust."""

    serial: int
    work: Work
    index: int = 0  # of the next batch


@dataclass
class Known:
    """What the model knows of the database as it is, and forgets with it when an older copy is restored."""

    job: int
    accepted: dict[int, str] = field(default_factory=dict)  # position -> the text of the first accepted result
    leases: dict[int, int] = field(default_factory=dict)  # serial -> next batch, of each lease that was ever taken

    def copy(self) -> "Known":
        return Known(self.job, dict(self.accepted), dict(self.leases))


@functools.cache
def empty_database() -> str:
    """Migrating takes ten times as long as a whole sequence of rules, so it is done once."""
    path = Path(tempfile.mkdtemp()) / "kvjobs.db"
    Database.open(f"sqlite:///{path}").close()
    return str(path)


class LeaseMachine(RuleBasedStateMachine):
    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.database = self.open()
        self.serials = itertools.count(1)
        self.known = Known(self.submit())
        self.backups = [(Dump.of(self.database), self.known.copy())]

    def submit(self) -> int:
        return insert_waiting_job(self.database, DOCUMENTS, PER_SHARD, tokens=TOKENS, rejected=(4,))

    def open(self) -> Database:
        raise NotImplementedError

    @rule(target=held, worker=WORKERS, in_time=st.booleans())
    def lease_a_shard(self, worker: int, in_time: bool) -> object:
        return self.lease(worker, in_time)

    def lease(self, worker: int, in_time: bool) -> object:
        work = leases.lease(self.database, worker, 0, 60.0 if in_time else -1.0)
        if work is None or not work.batches:
            return multiple()
        held = Held(next(self.serials), work)
        self.known.leases[held.serial] = 0
        return held

    @rule(target=held, sleeper=held)
    def take_over(self, sleeper: Held) -> object:
        """A worker sleeps past its lease, and another takes its shard; the sleeper does not know."""
        if self.is_newest(sleeper):
            lease_expiry.expire_workers(self.database, [sleeper.work.worker_id])
        return self.lease(worker=1, in_time=True)

    @rule(target=held, held=consumes(held), fails=st.sampled_from([None, Failed, Quarantined]), twice=st.booleans())
    def record(self, held: Held, fails: Any, twice: bool) -> object:
        work, index = held.work, held.index
        batch = work.batches[index]
        text = f"lease {held.serial}"
        # A copy that was made under this lease may stand before a batch that was recorded since.
        is_due = self.is_newest(held) and self.known.leases[held.serial] == index
        outcomes = [fails("a-code", "x") if fails and i == 0 else translated(text) for i in range(len(batch))]
        try:
            for _ in range(1 + twice):
                record(self.database, work, index, outcomes, learned={}, timings=TIMINGS, lease_s=60.0)
        except StaleLease:
            assert not is_due, "the newest lease was refused"
            return multiple()
        assert is_due, "a stale lease was accepted"
        self.known.leases[held.serial] = index + 1
        for document, outcome in zip(batch, outcomes, strict=True):
            if not isinstance(outcome, (Failed, Quarantined)):
                assert document.position not in self.known.accepted, "a document was accepted twice"
                self.known.accepted[document.position] = text
        return replace(held, index=index + 1) if index + 1 < len(work.batches) else multiple()

    @rule(held=consumes(held))
    def release(self, held: Held) -> None:
        leases.release(self.database, held.work)

    @rule(held=consumes(held))
    def forget(self, held: Held) -> None:
        """The worker died without a word; a later rule may or may not notice."""

    @rule(held=held)
    def heartbeat(self, held: Held) -> None:
        answered = leases.heartbeat(self.database, 60.0, [held.work])
        assert bool(answered.tokens) == self.is_newest(held)

    @rule(target=held)
    def prune(self) -> object:
        """The job goes, if nothing is left to do in it, and the next one is submitted and begun."""
        if self.state() not in ("done", "cancelled"):
            return multiple()
        prune_job(self.database, self.known.job)
        self.known = Known(self.submit())
        return self.lease(worker=1, in_time=True)

    @rule()
    def others_finish(self) -> None:
        """Whoever held a lease slept past it, and a worker that never sleeps has done all the rest."""
        lease_expiry.expire_workers(self.database, [1, 2, 3])
        with contextlib.suppress(SpecError):
            resume(self.database, self.known.job)
        while (work := leases.lease(self.database, 4, 0, 60.0)) is not None:
            for index, batch in enumerate(work.batches):
                outcomes = [translated("by another") for _ in batch]
                record(self.database, work, index, outcomes, learned={}, timings=[], lease_s=60.0)
                self.known.accepted |= {document.position: "by another" for document in batch}

    @rule()
    def back_up(self) -> None:
        self.backups.append((Dump.of(self.database), self.known.copy()))

    @rule(target=held, which=st.integers(1, 2))
    def restore(self, which: int) -> object:
        """The whole database is what it was at one of the last two copies, while workers hold leases of the time since;
        another worker goes on."""
        dump, known = self.backups[-which:][0]
        dump.restore(self.database)
        self.known = known.copy()
        return self.lease(worker=1, in_time=True)

    @rule()
    def expire(self) -> None:
        lease_expiry.expire(self.database)

    @rule(worker=WORKERS)
    def worker_dies(self, worker: int) -> None:
        lease_expiry.expire_workers(self.database, [worker])

    @rule(verb=st.sampled_from([pause, resume, cancel]))
    def a_person_acts(self, verb: object) -> None:
        try:
            verb(self.database, self.known.job)  # type: ignore[operator]
        except SpecError:
            assert self.state() in ("done", "cancelled")

    @rule()
    def retry(self) -> None:
        retry(self.database, self.known.job)

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
        assert results == self.known.accepted
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

    @invariant()
    def the_rollups_are_a_recount(self) -> None:
        with self.database.reading() as connection:
            assert list(find_wrong_rollups(connection, tables.Translation, self.known.job)) == []

    def is_newest(self, held: Held) -> bool:
        """Whether the lease was taken in this database as it is, and its shard has had no other since."""
        shard = tables.Shard
        epoch = select(shard.lease_epoch).where(shard.id == held.work.shard_id, shard.job_id == held.work.job_id)
        with self.database.reading() as connection:
            is_of_shard = connection.execute(epoch).scalar() == held.work.epoch
        return is_of_shard and held.serial in self.known.leases

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


SETTINGS = settings(
    max_examples=times(12),
    stateful_step_count=30,
    phases=[Phase.generate],  # shrinking takes minutes on a database; a failure prints its steps as they are
    suppress_health_check=list(HealthCheck),
)
TestOnSqlite, TestOnPostgresql = OnSqlite.TestCase, OnPostgresql.TestCase
TestOnSqlite.settings = TestOnPostgresql.settings = SETTINGS
TestOnSqlite.pytestmark = [pytest.mark.long]
TestOnPostgresql.pytestmark = [pytest.mark.long, pytest.mark.usefixtures("_the_server")]
