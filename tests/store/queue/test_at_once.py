"""Concurrent transactions of many workers and a user: races that a sequence of single steps cannot show."""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, select

from jobs.answers import Answers
from jobs.errors import SpecError, StaleLease, TransientError
from jobs.outcome import Failed
from jobs.store.database import Database
from jobs.store.disk_space.prune import prune_jobs
from jobs.store.jobs import cancel, pause, resume, retry
from jobs.store.queue import deaths, leases
from jobs.store.queue.deltas import fold
from jobs.store.queue.record import record
from jobs.store.queue.work import Work
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema import result_tables, tables
from jobs.store.worker_registry import WorkerStats, record_heartbeat
from tests.repetition import LONG
from tests.rows import AddWaitingJob, translated

WORKERS = 5
# Small jobs, because races are likely where a job ends.
JOBS, SECONDS = (30, 2.0) if LONG else (12, 0.8)
SEEDS = 4 * LONG or 1  # with more jobs for longer: 25 times as many actions as in the short form


def try_again(act: Callable[[], Any]) -> Any:
    """Repeat the call after a deadlock or a lock timeout, as a worker does."""
    while True:
        try:
            return act()
        except TransientError:
            continue


class ConcurrentActors:
    """Threads that lease, record, release, die, reap, pause, cancel and retry at random."""

    def __init__(self, database: Database, job_ids: list[int], seed: int) -> None:
        self.database = database
        self.job_ids = job_ids
        self.seed = seed
        self.ends = time.monotonic() + SECONDS
        self.accepted: list[tuple[int, int]] = []  # (job, position) of every document of an accepted batch
        self.failures: list[BaseException] = []

    def run(self, acts: list[Callable[[random.Random, int], Any]]) -> None:
        naps = random.Random(self.seed)

        def nap(*_statement: object) -> None:
            """Sleep between two statements of a transaction now and then, so that other threads run."""
            if naps.random() < 0.1:
                time.sleep(naps.uniform(0, 0.01))

        event.listen(self.database.engine, "after_cursor_execute", nap)
        try:
            self._run(acts)
        finally:
            event.remove(self.database.engine, "after_cursor_execute", nap)

    def _run(self, acts: list[Callable[[random.Random, int], Any]]) -> None:
        threads = [threading.Thread(target=self._live, args=(number, act)) for number, act in enumerate(acts, start=1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _live(self, number: int, act: Callable[[random.Random, int], Any]) -> None:
        chance = random.Random(self.seed * 100 + number)
        try:
            while time.monotonic() < self.ends:
                act(chance, number)
        except BaseException as error:
            self.failures.append(error)

    def work(self, chance: random.Random, number: int) -> None:
        work = try_again(lambda: leases.lease(self.database, number, 0, 60.0))
        if work is None:
            time.sleep(0.01)
            return
        for index in range(len(work.batches)):
            fate = chance.random()
            if fate < 0.05:
                return  # dies without releasing its lease
            if fate < 0.1:
                try_again(lambda: leases.release(self.database, work))
                return
            if fate < 0.15:
                try_again(lambda: record_heartbeat(self.database, number, WorkerStats(), 60.0, [work]))
            if not self._record(work, index, fails=chance.random() < 0.7):
                return

    def _record(self, work: Work, index: int, *, fails: bool) -> bool:
        batch = work.batches[index]
        outcomes = [Failed("engine-error", "x") if fails and i == 0 else translated() for i in range(len(batch))]
        try:
            try_again(lambda: record(self.database, work, index, Answers(outcomes), lease_s=60.0))
        except StaleLease:
            return False
        done = [d.position for d, outcome in zip(batch, outcomes, strict=True) if not isinstance(outcome, Failed)]
        self.accepted.extend((work.job_id, position) for position in done)
        return True

    def reap(self, chance: random.Random, _number: int) -> None:
        try_again(lambda: deaths.expire_workers(self.database, [chance.randint(1, WORKERS)]))
        try_again(lambda: deaths.expire(self.database))
        time.sleep(0.002)

    def fold(self, _chance: random.Random, _number: int) -> None:
        try_again(lambda: fold(self.database))
        time.sleep(0.002)

    def act_as_user(self, chance: random.Random, _number: int) -> None:
        (act,) = chance.choices([pause, resume, cancel, retry], weights=[1, 2, 1, 16])
        job_id = chance.choice(self.job_ids)
        with contextlib.suppress(SpecError):  # the job has ended
            try_again(lambda: act(self.database, job_id))
        time.sleep(0.002)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_no_document_is_lost_or_counted_twice_under_concurrent_actions(
    database: Database, add_waiting_job: AddWaitingJob, seed: int
) -> None:
    jobs = [add_waiting_job(documents=6, per_shard=3, tokens=2_000) for _ in range(JOBS)]
    actors = ConcurrentActors(database, jobs, seed)

    actors.run([actors.work] * WORKERS + 2 * [actors.reap, actors.fold, actors.act_as_user])
    actors.ends = time.monotonic() + 60
    finish(actors)

    assert len(set(actors.accepted)) == len(actors.accepted), "a document was accepted twice"
    with database.reading() as connection:
        for job_id in jobs:
            assert list(find_contradictions(connection, job_id)) == []
            assert connection.execute(select(tables.Job.state).where(tables.Job.id == job_id)).scalar() != "running"
        stored = connection.execute(select(result_tables.Translation.job_id, result_tables.Translation.position)).all()
    assert sorted(map(tuple, stored)) == sorted(actors.accepted)


def finish(actors: ConcurrentActors) -> None:
    """Process what is left, in one thread."""
    deaths.expire_workers(actors.database, list(range(1, WORKERS + 1)))
    for job_id in actors.job_ids:
        with contextlib.suppress(SpecError):
            resume(actors.database, job_id)
    while (work := leases.lease(actors.database, 1, 0, 60.0)) is not None:
        for index in range(len(work.batches)):
            actors._record(work, index, fails=False)


def test_a_shard_that_is_released_while_its_job_is_cancelled_is_cancelled_too(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    """On PostgreSQL neither transaction sees the other's changes until they are committed."""
    job_id = add_waiting_job(documents=2, per_shard=2)
    work = leases.lease(database, 1, 0, 60.0)
    assert work is not None
    looked, go_on = threading.Event(), threading.Event()

    def wait_in_transaction(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if threading.current_thread() is releasing and "UPDATE jobs" in statement:  # it has found no cancel request
            looked.set()
            go_on.wait(timeout=10)

    releasing = threading.Thread(target=leases.release, args=(database, work))
    cancelling = threading.Thread(target=cancel, args=(database, job_id))
    event.listen(database.engine, "after_cursor_execute", wait_in_transaction)
    try:
        releasing.start()
        assert looked.wait(timeout=10)
        cancelling.start()
        cancelling.join(timeout=0.5)
        go_on.set()
        releasing.join()
        cancelling.join()
    finally:
        event.remove(database.engine, "after_cursor_execute", wait_in_transaction)

    with database.reading() as connection:
        assert connection.execute(select(tables.Job.state)).scalar() == "cancelled"
        assert connection.execute(select(tables.JobCounts.cancelled)).scalar() == 2


def test_a_job_is_either_pruned_or_retried(database: Database, add_waiting_job: AddWaitingJob) -> None:
    """On PostgreSQL the retry has read that the job is done, and the prune that the job was not reopened."""
    job_id = add_waiting_job(documents=2, per_shard=2)
    work = leases.lease(database, 1, 0, 60.0)
    assert work is not None
    record(database, work, 0, Answers([Failed("engine-error", "x"), translated()]), lease_s=60.0)
    looked, go_on = threading.Event(), threading.Event()
    refused: list[SpecError] = []

    def wait_in_transaction(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if threading.current_thread() is retrying and "UPDATE documents" in statement:
            looked.set()
            go_on.wait(timeout=10)

    def prune() -> None:
        try:
            prune_jobs(database, [job_id])
        except SpecError as error:
            refused.append(error)

    retrying = threading.Thread(target=retry, args=(database, job_id))
    pruning = threading.Thread(target=prune)
    event.listen(database.engine, "after_cursor_execute", wait_in_transaction)
    try:
        retrying.start()
        assert looked.wait(timeout=10)
        pruning.start()
        pruning.join(timeout=0.5)
        go_on.set()
        retrying.join()
        pruning.join()
    finally:
        event.remove(database.engine, "after_cursor_execute", wait_in_transaction)

    assert len(refused) == 1
    with database.reading() as connection:
        assert connection.execute(select(tables.Job.state)).scalar() == "running"
        assert find_contradictions(connection, job_id) == []
        assert connection.execute(select(result_tables.Translation.text)).scalar() == "x"
