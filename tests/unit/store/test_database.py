import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from jobs.errors import SpecError, StoreError, TransientError
from jobs.store.database import Database
from jobs.store.migrate import HEAD, differences, downgrade, schema_version, upgrade


def test_a_new_file_gets_the_newest_schema(database: Database) -> None:
    assert schema_version(database.engine) == HEAD
    assert differences(database.engine) == []


def test_the_schema_can_be_taken_away_and_made_again(database: Database) -> None:
    downgrade(database.engine)
    assert schema_version(database.engine) is None

    upgrade(database.engine)

    assert differences(database.engine) == []


def test_head_is_the_newest_migration_there_is() -> None:
    from alembic.script import ScriptDirectory

    migrations = Path(__file__).parents[3] / "migrations"
    assert ScriptDirectory(str(migrations)).get_current_head() == HEAD


def test_a_database_from_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kvjobs.db'}"
    Database.open(url).close()
    with sqlite3.connect(tmp_path / "kvjobs.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()

    with pytest.raises(StoreError, match=r"newer kvjobs.*9999"):
        Database.open(url)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "kvjobs.db"
    file.write_bytes(b"my thesis, only copy" * 100)

    with pytest.raises(StoreError, match="not a database"):
        Database.open(f"sqlite:///{file}")

    assert file.read_bytes() == b"my thesis, only copy" * 100


def test_a_locked_database_is_worth_waiting_for(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kvjobs.db'}"
    Database.open(url).close()
    other = sqlite3.connect(tmp_path / "kvjobs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    impatient = Database.open(url, busy_timeout_s=0.05)

    with pytest.raises(TransientError, match="locked"), impatient.writing():
        pass

    other.execute("COMMIT")
    with impatient.writing() as connection:
        connection.execute(text("DELETE FROM jobs"))
    other.close()
    impatient.close()


def test_a_reader_is_never_held_up_by_a_writer(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(text("DELETE FROM jobs"))
        with database.reading() as reader:
            assert reader.execute(text("SELECT COUNT(*) FROM jobs")).scalar() == 0


def test_writers_wait_for_each_other(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE tally (n INTEGER)"))
        connection.execute(text("INSERT INTO tally VALUES (0)"))

    def add() -> None:
        for _ in range(20):
            with database.writing() as connection:
                n = connection.execute(text("SELECT n FROM tally")).scalar_one()
                connection.execute(text("UPDATE tally SET n = :n"), {"n": n + 1})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with database.reading() as connection:
        assert connection.execute(text("SELECT n FROM tally")).scalar() == 80


def test_a_transaction_that_raises_leaves_nothing(database: Database) -> None:
    def half() -> None:
        with database.writing() as connection:
            connection.execute(text("CREATE TABLE half_made (n INTEGER)"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()

    with database.reading() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM sqlite_master WHERE name = 'half_made'")).scalar() == 0


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match="in memory"):
        Database.open(url)


def test_a_bad_address_is_refused_without_repeating_what_may_be_a_password() -> None:
    with pytest.raises(SpecError) as refused:
        Database.open("secret-without-scheme")

    assert "secret" not in str(refused.value)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_said_plainly_and_work_goes_on_once_there_is_room(tiny_disk: Path) -> None:
    database = Database.open(f"sqlite:///{tiny_disk / 'kvjobs.db'}")
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE t (x BLOB)"))
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(b"x" * (_free(tiny_disk) - 8192))
    row = text("INSERT INTO t VALUES (zeroblob(100000))")

    with pytest.raises(TransientError, match=r"disk.*full"), database.writing() as connection:
        connection.execute(row)

    ballast.unlink()
    with database.writing() as connection:
        connection.execute(row)
        assert connection.execute(text("SELECT COUNT(*) FROM t")).scalar() == 1
    database.close()


def _free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def test_two_processes_may_make_the_same_new_database_at_once(tmp_path: Path) -> None:
    code = f"from jobs.store.database import Database; Database.open('sqlite:///{tmp_path / 'new.db'}')"
    both = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(3)]

    errors = [process.communicate()[1] for process in both]

    assert [process.returncode for process in both] == [0, 0, 0], errors
