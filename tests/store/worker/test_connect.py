"""A worker waits for an unreachable database, but not for a file that is not a database."""

import sqlite3
from pathlib import Path

import pytest

from jobs.errors import StoreError
from jobs.settings import Settings
from jobs.store.database import Database
from tests.databases import ON_SQLITE
from worker.process.connect import connect_with_retry


def settings_of(path: Path) -> Settings:
    return Settings(
        home=path.parent, models_dir=path.parent, database=f"sqlite:///{path}", busy_timeout_s=0.05, lease_s=60
    )


@ON_SQLITE
def test_a_database_that_is_locked_is_opened_as_soon_as_it_is_free(
    database: Database, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database.close()
    lock = sqlite3.connect(home / "kvjobs.db", isolation_level=None)
    lock.execute("PRAGMA locking_mode = EXCLUSIVE")
    lock.execute("BEGIN EXCLUSIVE")
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 8:
            lock.close()
        return False

    opened = connect_with_retry(settings_of(home / "kvjobs.db"), pause)

    assert opened is not None
    opened.close()
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert len([record for record in caplog.records if "waiting for the database" in record.message]) == 1


@ON_SQLITE
def test_a_worker_that_is_asked_to_stop_does_not_wait(database: Database, home: Path) -> None:
    database.close()
    lock = sqlite3.connect(home / "kvjobs.db", isolation_level=None)
    lock.execute("PRAGMA locking_mode = EXCLUSIVE")
    lock.execute("BEGIN EXCLUSIVE")

    assert connect_with_retry(settings_of(home / "kvjobs.db"), lambda seconds: True) is None
    lock.close()


@ON_SQLITE
def test_a_worker_that_has_already_run_waits_after_any_error_of_its_database(database: Database, home: Path) -> None:
    database.close()
    good = (home / "kvjobs.db").read_bytes()
    (home / "kvjobs.db").write_text("not a database until the copy is restored" * 50)
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 2:
            (home / "kvjobs.db").write_bytes(good)
        return False

    opened = connect_with_retry(settings_of(home / "kvjobs.db"), pause, has_run=True)

    assert opened is not None
    opened.close()
    assert len(pauses) == 2


def test_an_error_that_waiting_cannot_resolve_is_raised_at_once(home: Path) -> None:
    (home / "kvjobs.db").write_text("not a database, and waiting does not change that" * 50)

    with pytest.raises(StoreError, match="not a database"):
        connect_with_retry(settings_of(home / "kvjobs.db"), lambda seconds: pytest.fail("it waited"))
