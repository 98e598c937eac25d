"""Which worker processes a job that `submit --wait` follows: a running one, or one that the command starts."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest
from sqlalchemy import update

from jobs.cli import wait_for_job
from jobs.cli.render.messages import print_message
from jobs.errors import KvjobsError
from jobs.operations import embedded_worker_starter
from jobs.operations.embedded_worker_starter import EmbeddedWorkerStarter
from jobs.settings import Settings, read_settings
from jobs.store.database import Database
from jobs.store.queue.leases import lease
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Job, Worker
from jobs.store.worker_registry import mark_stopped, register
from tests.rows import AddJob, Line
from worker.engine.runtime import device


@dataclass
class StartedWorker:
    """In place of an embedded worker process. `all`: the workers started; `events`: the calls made to them."""

    settings: Settings
    device: str = "cpu"
    job_id: int | None = None
    has_job: bool = False
    lives: bool = True
    drained: bool = False
    pid: int = field(default_factory=os.getppid)  # a worker that the test registers is its child
    all: ClassVar[list["StartedWorker"]] = []
    events: ClassVar[list[str]] = []

    def __post_init__(self) -> None:
        self.all.append(self)

    def serve(self, job_id: int) -> None:
        self.job_id, self.has_job = job_id, True

    def kill(self) -> None:
        self.events.append("killed")

    def new_lines(self) -> list[str]:
        return []

    def check(self) -> bool:
        return self.lives

    def was_drained(self) -> bool:
        return self.drained

    def ask_to_stop(self) -> None:
        self.events.append("stop")

    def ends_within(self, seconds: float) -> bool:
        return False  # it is computing a batch of another job

    def stop(self) -> None:
        self.events.append("ended")


@pytest.fixture
def started_workers(monkeypatch: pytest.MonkeyPatch) -> list[StartedWorker]:
    """The embedded workers started so far."""
    monkeypatch.setattr(embedded_worker_starter, "EmbeddedWorker", StartedWorker)
    monkeypatch.setattr(embedded_worker_starter, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(StartedWorker, "all", [])
    monkeypatch.setattr(StartedWorker, "events", [])
    return StartedWorker.all


@pytest.fixture
def starter(database: Database, started_workers: list[StartedWorker]) -> EmbeddedWorkerStarter:
    return EmbeddedWorkerStarter(read_settings({})[0], database, print_message)


def ensure(starter: EmbeddedWorkerStarter, database: Database, job_id: int) -> None:
    with database.reading() as connection:
        job = find_job(connection, str(job_id))
    starter.start_if_needed(job)


def other_worker(database: Database, queues: str = "cpu") -> int:
    return register(database, device="cpu", provider="test", lanes=1, queues=queues)


def test_without_a_running_worker_one_is_started_for_the_job(
    database: Database, starter: EmbeddedWorkerStarter, add_job: AddJob, started_workers: list[StartedWorker]
) -> None:
    add_job(Line("a"), Line("b"))
    mine = add_job(Line("a"))

    ensure(starter, database, mine)
    ensure(starter, database, mine)

    assert [(one.job_id, one.device) for one in started_workers] == [(mine, "cpu")]
    started_workers[0].lives = False  # it ended without being asked to
    ensure(starter, database, mine)
    assert len(started_workers) == 2


def test_in_place_of_a_worker_that_was_drained_none_is_started(
    database: Database,
    starter: EmbeddedWorkerStarter,
    add_job: AddJob,
    started_workers: list[StartedWorker],
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine = add_job(Line("a"))
    ensure(starter, database, mine)
    started_workers[0].lives, started_workers[0].drained = False, True

    for _ in range(3):
        ensure(starter, database, mine)

    assert len(started_workers) == 1
    assert capsys.readouterr().err.count("drain") == 1
    assert starter.note
    other_worker(database)
    ensure(starter, database, mine)
    assert starter.note == ""


def test_no_worker_is_started_while_another_one_serves_the_job(
    database: Database, starter: EmbeddedWorkerStarter, add_job: AddJob, started_workers: list[StartedWorker]
) -> None:
    mine = add_job(Line("a"))
    worker = other_worker(database)

    ensure(starter, database, mine)
    assert started_workers == []

    mark_stopped(database, [worker])
    ensure(starter, database, mine)
    assert [one.job_id for one in started_workers] == [mine]


def test_the_worker_that_was_started_early_gets_the_job(
    database: Database, add_job: AddJob, started_workers: list[StartedWorker]
) -> None:
    mine = add_job(Line("a"))
    settings = read_settings({})[0]
    early = StartedWorker(settings)
    starter = EmbeddedWorkerStarter(settings, database, print_message, early)  # type: ignore[arg-type]  # in place of a process

    ensure(starter, database, mine)
    assert early.job_id == mine
    early.lives = False
    ensure(starter, database, mine)

    assert [one.job_id for one in started_workers] == [mine, mine]
    assert StartedWorker.events == []


def test_the_worker_that_was_started_early_is_killed_where_another_one_serves_the_job(
    database: Database, add_job: AddJob, started_workers: list[StartedWorker]
) -> None:
    mine = add_job(Line("a"))
    other_worker(database)
    settings = read_settings({})[0]
    starter = EmbeddedWorkerStarter(settings, database, print_message, StartedWorker(settings))  # type: ignore[arg-type]

    ensure(starter, database, mine)

    assert [one.job_id for one in started_workers] == [None]
    assert StartedWorker.events == ["killed"]


@pytest.mark.parametrize("how", ["other queues", "stale"])
def test_a_worker_is_started_if_the_running_one_cannot_process_the_job(
    database: Database, starter: EmbeddedWorkerStarter, add_job: AddJob, started_workers: list[StartedWorker], how: str
) -> None:
    mine = add_job(Line("a"))
    other_worker(database, "model:other" if how == "other queues" else "cpu")
    if how == "stale":  # its process exists but has sent no heartbeat for 120 s
        with database.writing() as connection:
            connection.execute(update(Worker).values(heartbeat_at=db_time(-120)))

    ensure(starter, database, mine)

    assert [one.job_id for one in started_workers] == [mine]


def test_jobs_ahead_are_reported_once_and_the_progress_line_shows_that_the_job_waits(
    database: Database, starter: EmbeddedWorkerStarter, add_job: AddJob, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        add_job(*(Line(f"d{number}") for number in range(20)))
    mine = add_job(Line("a"))
    other_worker(database)

    for _ in range(3):
        ensure(starter, database, mine)

    assert capsys.readouterr().err == "3 jobs with 60 documents are ahead of it.\n"
    assert starter.note == "waits for 3 jobs ahead of it"
    with database.writing() as connection:
        connection.execute(update(Job).where(Job.id != mine).values(paused=True))
    ensure(starter, database, mine)
    assert starter.note == ""


def test_a_gpu_job_without_a_gpu_here_waits_and_says_so(
    database: Database,
    starter: EmbeddedWorkerStarter,
    add_job: AddJob,
    started_workers: list[StartedWorker],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine = add_job(Line("a"), queue="gpu")
    other_worker(database)
    monkeypatch.setattr(device, "GPU_FILES", ())

    for _ in range(2):
        ensure(starter, database, mine)

    assert started_workers == []
    assert starter.note == "no worker with a GPU"
    err = capsys.readouterr().err
    assert err.count(f"Job {mine} waits for a worker with a GPU") == 1
    assert "kvjobs worker --device cuda:0" in err


def test_a_gpu_job_gets_a_worker_on_the_gpu_of_this_machine(
    database: Database,
    starter: EmbeddedWorkerStarter,
    add_job: AddJob,
    started_workers: list[StartedWorker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = add_job(Line("a"), queue="gpu")
    monkeypatch.setattr(device, "GPU_FILES", ("/",))
    monkeypatch.setattr(device, "check_device", lambda name: name)

    ensure(starter, database, mine)

    assert [one.device for one in started_workers] == ["cuda:0"]


def test_a_job_that_its_worker_paused_ends_the_wait(
    database: Database, starter: EmbeddedWorkerStarter, add_job: AddJob
) -> None:
    mine = add_job(Line("a"), paused=True, reason="the model changed")

    with pytest.raises(KvjobsError, match=r"paused.*model changed"):
        ensure(starter, database, mine)


@pytest.mark.parametrize("has_shard", [True, False])
def test_results_are_written_before_the_worker_finishes_a_batch_of_another_job_if_it_has_one(
    database: Database,
    add_job: AddJob,
    started_workers: list[StartedWorker],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    has_shard: bool,
) -> None:
    mine = add_job(Line("a", "甲"), Line("b"))
    with database.reading() as connection:
        running = find_job(connection, str(mine))

    def follow_chain(_database: Database, _job: JobSummary, update: Callable[[JobSummary], None]) -> list[JobSummary]:
        update(running)
        worker = register(database, device="cpu", provider="CPUExecutionProvider", lanes=1)
        assert not has_shard or lease(database, worker, 0, 60)
        return [replace(running, state=JobState.DONE)]

    monkeypatch.setattr(wait_for_job, "follow_chain", follow_chain)
    monkeypatch.setattr(wait_for_job, "_write", lambda *_: StartedWorker.events.append("written"))

    wait_for_job.wait_for_job(read_settings({})[0], database, running, None, None, again="")

    assert StartedWorker.events == ["stop", "written", "ended"]
    assert ("another job" in capsys.readouterr().err) == has_shard
