"""The child process of a worker, observed by its parent."""

import os
import shutil
import signal
import sqlite3
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.settings import Settings
from tests.machine import freeze
from worker.process.child_handle import EXIT_REFUSED, Child


@pytest.fixture
def settings(empty_database: Path, tmp_path: Path) -> Settings:
    """With a database: making one takes a second."""
    shutil.copy(empty_database, tmp_path / "kvjobs.db")
    return Settings(home=tmp_path, models_dir=tmp_path / "models", lanes=1, poll_s=600)


def test_a_child_reports_that_it_is_idle_and_ends_when_asked(settings: Settings) -> None:
    child = Child(WorkerArguments(replace(settings, lanes=2)))
    child.spawn()
    try:
        assert child.wait_idle(30)  # it has found no work and waits
        for _ in range(3):
            child.wake()
            assert child.wait_idle(10)

        freeze(child.pid or 0)
        child.wake()
        assert not child.wait_idle(0.3)
        os.kill(child.pid or 0, signal.SIGCONT)
        assert child.wait_idle(10)
        assert child.poll() is None
    finally:
        code = child.end()
    assert code == 0


def test_a_wait_for_a_child_ends_when_the_child_dies(settings: Settings) -> None:
    child = Child(WorkerArguments(settings))
    child.spawn()
    assert child.wait_idle(30)
    freeze(child.pid or 0)
    child.wake()
    waiting = threading.Thread(target=child.wait_idle, args=(60,), daemon=True)
    waiting.start()
    time.sleep(0.2)
    assert waiting.is_alive()

    child.kill()

    waiting.join(5)
    assert not waiting.is_alive()
    assert child.wait(5) == -signal.SIGKILL
    child.wake()  # no effect: the process has ended
    child.spawn()  # starts a replacement
    assert child.wait_idle(30)
    assert child.end() == 0


def test_a_child_waits_for_its_database_and_can_be_stopped_meanwhile(settings: Settings, tmp_path: Path) -> None:
    settings = replace(settings, busy_timeout_s=0.1)
    lock = sqlite3.connect(tmp_path / "kvjobs.db", isolation_level=None, check_same_thread=False)
    lock.execute("PRAGMA locking_mode = EXCLUSIVE")
    lock.execute("BEGIN EXCLUSIVE")
    first, second = Child(WorkerArguments(settings)), Child(WorkerArguments(settings))
    for child in (first, second):
        child.spawn()
    assert not first.wait_idle(2)

    assert second.end() == 0
    assert first.poll() is None
    lock.close()

    assert first.wait_idle(20)
    assert first.end() == 0


def test_a_replacement_child_waits_for_a_database_that_a_first_child_would_refuse(
    settings: Settings, tmp_path: Path
) -> None:
    child = Child(WorkerArguments(settings))
    child.spawn()
    assert child.wait_idle(30)
    assert child.worker_id() == 1
    child.kill()
    child.wait(10)
    (tmp_path / "kvjobs.db").rename(tmp_path / "kept.db")
    for path in tmp_path.glob("kvjobs.db-*"):
        path.unlink()
    (tmp_path / "kvjobs.db").write_bytes(b"no database any more" * 100)

    stranger = Child(WorkerArguments(settings))
    stranger.spawn()
    child.spawn()
    assert stranger.wait(30) == EXIT_REFUSED
    assert not child.wait_idle(1)
    assert child.poll() is None
    (tmp_path / "kept.db").replace(tmp_path / "kvjobs.db")

    assert child.wait_idle(30)
    assert child.end() == 0


def test_a_child_that_was_started_early_opens_no_database_before_its_job(settings: Settings, tmp_path: Path) -> None:
    settings = replace(settings, home=tmp_path / "new")  # whose database would be made
    child, unneeded = Child(WorkerArguments(settings)), Child(WorkerArguments(settings))
    for one in (child, unneeded):
        one.start_early()
    assert child.wait(3) is None
    assert unneeded.end() == 0
    assert not (tmp_path / "new" / "kvjobs.db").exists()

    child.first_job = 1
    child.wake()  # no effect: what it reads next is the number of its job
    child.spawn()

    assert child.wait_idle(30)
    assert child.worker_id() == 1
    child.wake()
    assert child.wait_idle(10)  # the line with the job woke nothing
    child.kill()
    child.wait(10)
    child.spawn()  # a replacement knows the job, and waits for no line
    assert child.wait_idle(30)
    assert child.end() == 0
