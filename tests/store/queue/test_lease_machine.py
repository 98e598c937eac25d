"""A model-based test of leases: in any order of events no document is lost or counted twice, and no result is written
under the ids of another job.

    KVJOBS_TEST_LONG=40 pytest tests/store/queue/test_lease_machine.py

tries 2,000 sequences on SQLite and 1,200 on PostgreSQL instead of 5 and 3.
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
from sqlalchemy import select, text

from jobs.answers import Answers
from jobs.errors import SpecError, StaleLease
from jobs.outcome import Failed, Quarantined, StepTiming
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import cancel, pause, resume, retry
from jobs.store.queue import deaths, leases
from jobs.store.queue.deltas import fold, fold_job
from jobs.store.queue.record import record
from jobs.store.queue.work import Work
from jobs.store.report.recount.rollup_recount import find_wrong_rollups
from jobs.store.schema import result_tables, tables
from jobs.store.worker_registry import WorkerStats, record_heartbeat
from tests.databases import empty, without_fsync
from tests.repetition import times
from tests.rows import insert_waiting_job, translated
from tests.store.dump import Dump

DOCUMENTS, PER_SHARD, TOKENS = 7, 3, 2_000  # two documents per batch, two batches per shard
WORKERS = st.integers(1, 3)
TIMINGS = [StepTiming("encode", 0, 2, 20, 0, 0.5), *(StepTiming("decode", n, 2, 2, 31 + n, 0.25) for n in range(3))]


@dataclass(frozen=True)
class Held:
    """A lease that a worker believes to hold. The model identifies leases by a serial number of its own, because the
    ids and tokens of the store are what is tested."""

    serial: int
    work: Work
    index: int = 0  # the next batch to record


@dataclass
class ModelState:
    """The expected content of the database; it is copied and restored together with the database."""

    job: int
    accepted: dict[int, str] = field(default_factory=dict)  # position -> the text of the first accepted result
    leases: dict[int, int] = field(default_factory=dict)  # serial of each lease taken so far -> its next batch

    def copy(self) -> "ModelState":
        return ModelState(self.job, dict(self.accepted), dict(self.leases))


@functools.cache
def empty_database() -> str:
    """An empty migrated database, made once: migrating takes ten times as long as a whole sequence of rules."""
    path = Path(tempfile.mkdtemp()) / "kvjobs.db"
    Database.open(f"sqlite:///{path}").close()
    return str(path)


class LeaseMachine(RuleBasedStateMachine):
    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.database = self.open()
        self.serials = itertools.count(1)
        self.model = ModelState(self.submit())
        self.backups = [(Dump.of(self.database), self.model.copy())]

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
        self.model.leases[held.serial] = 0
        return held

    @rule(target=held, sleeper=held)
    def take_over(self, sleeper: Held) -> object:
        """A worker sleeps past its lease, and another worker leases its shard."""
        if self.is_newest(sleeper):
            deaths.expire_workers(self.database, [sleeper.work.worker_id])
        return self.lease(worker=1, in_time=True)

    @rule(target=held, held=consumes(held), fails=st.sampled_from([None, Failed, Quarantined]), twice=st.booleans())
    def record(self, held: Held, fails: Any, twice: bool) -> object:
        work, index = held.work, held.index
        batch = work.batches[index]
        text = f"lease {held.serial}"
        # After a restore, the store may be at an earlier batch of this lease than the worker.
        is_due = self.is_newest(held) and self.model.leases[held.serial] == index
        outcomes = [fails("a-code", "x") if fails and i == 0 else translated(text) for i in range(len(batch))]
        try:
            for _ in range(1 + twice):
                record(self.database, work, index, Answers(outcomes, timings=TIMINGS), lease_s=60.0)
        except StaleLease:
            assert not is_due, "the newest lease was refused"
            return multiple()
        assert is_due, "a stale lease was accepted"
        self.model.leases[held.serial] = index + 1
        for document, outcome in zip(batch, outcomes, strict=True):
            if not isinstance(outcome, (Failed, Quarantined)):
                assert document.position not in self.model.accepted, "a document was accepted twice"
                self.model.accepted[document.position] = text
        return replace(held, index=index + 1) if index + 1 < len(work.batches) else multiple()

    @rule(held=consumes(held))
    def release(self, held: Held) -> None:
        leases.release(self.database, held.work)

    @rule(held=consumes(held))
    def forget(self, held: Held) -> None:
        """The worker died without releasing its lease; a later rule may expire it."""

    @rule(held=held)
    def heartbeat(self, held: Held) -> None:
        answered, _asked = record_heartbeat(self.database, 1, WorkerStats(), 60.0, [held.work])
        assert bool(answered.tokens) == self.is_newest(held)

    @rule(target=held)
    def prune(self) -> object:
        """If the job has ended, it is pruned, and the next job is submitted and begun."""
        if self.state() not in ("done", "cancelled"):
            return multiple()
        self.the_rollups_are_a_recount()
        prune_jobs(self.database, [self.model.job])
        self.model = ModelState(self.submit())
        return self.lease(worker=1, in_time=True)

    @rule()
    def others_finish(self) -> None:
        """All leases expire, and another worker processes the rest of the job."""
        deaths.expire_workers(self.database, [1, 2, 3])
        with contextlib.suppress(SpecError):
            resume(self.database, self.model.job)
        while (work := leases.lease(self.database, 4, 0, 60.0)) is not None:
            for index, batch in enumerate(work.batches):
                outcomes = [translated("by another") for _ in batch]
                record(self.database, work, index, Answers(outcomes), lease_s=60.0)
                self.model.accepted |= {document.position: "by another" for document in batch}

    @rule()
    def back_up(self) -> None:
        self.backups.append((Dump.of(self.database), self.model.copy()))

    @rule(target=held, which=st.integers(1, 2))
    def restore(self, which: int) -> object:
        """The whole database is restored from one of the last two copies, while workers hold later leases; another
        worker continues."""
        self.the_rollups_are_a_recount()
        dump, model = self.backups[-which:][0]
        dump.restore(self.database)
        self.model = model.copy()
        return self.lease(worker=1, in_time=True)

    @rule()
    def expire(self) -> None:
        deaths.expire(self.database)

    @rule(worker=WORKERS)
    def worker_dies(self, worker: int) -> None:
        deaths.expire_workers(self.database, [worker])

    @rule(verb=st.sampled_from([pause, resume, cancel]))
    def a_user_acts(self, verb: object) -> None:
        try:
            verb(self.database, self.model.job)  # type: ignore[operator]
        except SpecError:
            assert self.state() in ("done", "cancelled")

    @rule()
    def retry(self) -> None:
        retry(self.database, self.model.job)

    @rule(dies=st.booleans())
    def fold(self, dies: bool) -> None:
        """At any moment, twice, or killed in the transaction. On SQLite nothing is left to fold."""
        if dies and not self.database.is_sqlite:
            with contextlib.suppress(KeyboardInterrupt), self.database.writing() as connection:
                fold_job(connection, self.model.job)
                raise KeyboardInterrupt
        else:
            fold(self.database)

    @invariant()
    def every_document_is_in_one_state_and_the_counters_equal_a_recount(self) -> None:
        with self.database.reading() as connection:
            documents = connection.execute(
                select(tables.Document.position, tables.Document.status, tables.Document.estimated_tokens)
            ).all()
            found = connection.execute(select(result_tables.Translation.position, result_tables.Translation.text))
            results = {row.position: row.text for row in found}
            counts = connection.execute(text("SELECT * FROM current_job_counts")).one()
            shards = connection.execute(select(tables.Shard.__table__)).all()
        assert results == self.model.accepted
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

    @rule()
    def the_rollups_are_a_recount(self) -> None:
        """A rule, and the end of each job, not an invariant: it takes as long as all other rules together."""
        with self.database.reading() as connection:
            assert list(find_wrong_rollups(connection, result_tables.Translation, self.model.job)) == []

    def is_newest(self, held: Held) -> bool:
        """Whether the lease exists in the database in its present state and is the newest of its shard."""
        shard = tables.Shard
        epoch = select(shard.lease_epoch).where(shard.id == held.work.shard_id, shard.job_id == held.work.job_id)
        with self.database.reading() as connection:
            is_of_shard = connection.execute(epoch).scalar() == held.work.epoch
        return is_of_shard and held.serial in self.model.leases

    def state(self) -> str:
        with self.database.reading() as connection:
            return str(connection.execute(select(tables.Job.state)).scalar_one())


class OnSqlite(LeaseMachine):
    def open(self) -> Database:
        self.folder = tempfile.TemporaryDirectory()
        return without_fsync(Database.open(f"sqlite:///{shutil.copy(empty_database(), self.folder.name)}"))

    def teardown(self) -> None:
        self.the_rollups_are_a_recount()
        self.database.close()
        self.folder.cleanup()


class OnPostgresql(LeaseMachine):
    shared: ClassVar[Database]

    def open(self) -> Database:
        return self.shared

    def teardown(self) -> None:
        self.the_rollups_are_a_recount()
        empty(self.database)


@pytest.fixture
def _the_server(postgresql: Database) -> None:
    OnPostgresql.shared = postgresql


SETTINGS = settings(
    max_examples=times(5),
    stateful_step_count=30,
    phases=[Phase.generate],  # shrinking takes minutes on a database; a failure prints its steps unshrunk
    suppress_health_check=list(HealthCheck),
)
TestOnSqlite, TestOnPostgresql = OnSqlite.TestCase, OnPostgresql.TestCase
TestOnSqlite.settings = SETTINGS
TestOnPostgresql.settings = settings(SETTINGS, max_examples=times(3))  # each takes twice the time of one on SQLite
TestOnSqlite.pytestmark = [pytest.mark.long]
TestOnPostgresql.pytestmark = [pytest.mark.long, pytest.mark.usefixtures("_the_server")]
