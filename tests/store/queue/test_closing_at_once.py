"""PostgreSQL: shards of a job close without waiting for each other, and nothing is lost or left open by that."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobs.dispatch.reaper import reap
from jobs.outcome import Failed
from jobs.store import jobs
from jobs.store.database import Database
from jobs.store.jobs import cancel, retry
from jobs.store.queue import record as recording
from jobs.store.queue.job_counters import lock_counters
from jobs.store.queue.work import Work
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema import tables
from tests.databases import ON_POSTGRESQL
from tests.rows import AddWaitingJob, translated
from tests.store.leasing import counts, take, value, write

pytestmark = ON_POSTGRESQL
PATIENCE_S = 20.0
FAILS = Failed("engine-error", "x")


class Stops:
    """Recorders that stop where they have written everything and committed nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reached, self._go_on = threading.Semaphore(0), threading.Event()
        self._threads: list[threading.Thread] = []

    def failpoint(self, name: str) -> None:
        if name == "before-commit" and threading.current_thread() in self._threads:
            self._reached.release()
            assert self._go_on.wait(PATIENCE_S)

    def record(self, work: Work, index: int) -> None:
        """Record a batch in a thread; return once it has written everything."""
        self._threads.append(threading.Thread(target=write, args=(self._database, work, index), daemon=True))
        self._threads[-1].start()
        assert self._reached.acquire(timeout=PATIENCE_S)

    def go_on(self) -> None:
        self._go_on.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@pytest.fixture
def stops(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stops]:
    found = Stops(database)
    monkeypatch.setattr(recording, "failpoint", found.failpoint)
    yield found
    found.go_on()


def dies(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, act: Callable[[], Any]) -> None:
    """Act, and die on calling the function `name` of a module."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, name, die)
        with pytest.raises(KeyboardInterrupt):
            act()


def state(database: Database, job: int) -> Any:
    return value(database, tables.Job.state, tables.Job.id == job)


def assert_sound(database: Database, job: int) -> None:
    with database.reading() as connection:
        assert list(find_contradictions(connection, job)) == []


def test_who_closes_a_shard_does_not_wait_for_the_counters(database: Database, add_waiting_job: AddWaitingJob) -> None:
    job = add_waiting_job(documents=4, per_shard=2)
    first = take(database)

    with database.writing() as other:
        lock_counters(other, job)
        recorder = threading.Thread(target=write, args=(database, first), daemon=True)
        recorder.start()
        recorder.join(PATIENCE_S)
        assert not recorder.is_alive()

    assert counts(database, job).shards_open == 1
    assert_sound(database, job)


def test_two_that_close_the_last_shards_at_once_end_the_job(
    database: Database, add_waiting_job: AddWaitingJob, stops: Stops
) -> None:
    job = add_waiting_job(documents=4, per_shard=2)
    for work in (take(database), take(database)):
        stops.record(work, 0)
    assert state(database, job) == "running"

    stops.go_on()

    assert state(database, job) == "done"
    assert counts(database, job).succeeded == 4
    assert_sound(database, job)


def test_the_reaper_ends_a_job_whose_last_recorder_died_behind_its_commit(
    database: Database, add_waiting_job: AddWaitingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_waiting_job(documents=2, per_shard=2)
    dies(monkeypatch, recording, "end_if_over", lambda: write(database, take(database)))
    assert state(database, job) == "running"

    reap(database)

    assert state(database, job) == "done"
    assert_sound(database, job)


def a_shard_with_a_failure(database: Database, add_waiting_job: AddWaitingJob) -> tuple[int, Work]:
    """A job of one shard of two batches; the document of the first has failed."""
    job = add_waiting_job(documents=2, per_shard=2, tokens=3_000)
    work = take(database)
    assert len(work.batches) == 2
    write(database, work, 0, outcomes=[FAILS])
    return job, work


def test_a_document_that_is_opened_while_its_shard_closes_is_computed(
    database: Database, add_waiting_job: AddWaitingJob, stops: Stops
) -> None:
    job, work = a_shard_with_a_failure(database, add_waiting_job)
    stops.record(work, 1)
    user = threading.Thread(target=retry, args=(database, job), daemon=True)
    user.start()
    until(lambda: counts(database, job).failed == 0)

    stops.go_on()
    user.join(PATIENCE_S)

    again = take(database)
    assert [document.position for batch in again.batches for document in batch] == [0]
    assert state(database, job) == "running"
    assert_sound(database, job)
    write(database, again, outcomes=[translated()])
    assert state(database, job) == "done"


@pytest.mark.parametrize("who", ["recorder", "reaper"])
def test_a_retry_that_dies_midway_loses_no_document(
    database: Database,
    add_waiting_job: AddWaitingJob,
    stops: Stops,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
) -> None:
    job, work = a_shard_with_a_failure(database, add_waiting_job)
    stops.record(work, 1)
    dies(monkeypatch, jobs, "reopen_shards", lambda: retry(database, job))
    if who == "reaper":
        monkeypatch.setattr(recording, "end_if_over", lambda *_: None)

    stops.go_on()
    reap(database)

    assert state(database, job) == "running"
    assert [document.position for document in take(database).batches[0]] == [0]
    assert_sound(database, job)


def test_a_cancel_while_the_last_shard_closes_ends_the_job(
    database: Database, add_waiting_job: AddWaitingJob, stops: Stops
) -> None:
    job = add_waiting_job(documents=4, per_shard=2)
    stops.record(take(database), 0)
    user = threading.Thread(target=cancel, args=(database, job), daemon=True)
    user.start()

    stops.go_on()
    user.join(PATIENCE_S)

    assert state(database, job) == "cancelled"
    assert counts(database, job).shards_open == 0
    assert_sound(database, job)


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread commits."""
    ended = threading.Event()
    for _ in range(int(PATIENCE_S / 0.02)):
        if condition():
            return
        ended.wait(0.02)
    raise AssertionError("it did not happen")
