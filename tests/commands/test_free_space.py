"""The size of a SQLite file after `kvjobs db prune` and `kvjobs db vacuum`."""

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs.store.database import Database
from jobs.store.disk_space import free_pages, prune
from jobs.system.process import ProcessId
from jobs.text.formatting import size
from tests.command_line import Kvjobs
from tests.databases import ON_POSTGRESQL
from tests.messages import line_with
from tests.rows import Line, dead_process, enter, insert_job

LINES = [Line(f"d{number}", "译" * 300, text="x" * 1000) for number in range(300)]  # some 600 kB
PAGE = 4096


@pytest.fixture
def new_file(database: Database) -> Database:
    """Of this version, with two jobs: the pages of job 1 lie in the middle."""
    insert_job(database, LINES)
    insert_job(database, LINES[:10])
    return database


@pytest.fixture
def old_file(home: Path) -> Iterator[Database]:
    """As older versions made it, with the same jobs."""
    with sqlite3.connect(home / "kvjobs.db") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    database = Database.open(f"sqlite:///{home / 'kvjobs.db'}")
    insert_job(database, LINES)
    insert_job(database, LINES[:10])
    yield database
    database.close()


def on_disk(home: Path) -> int:
    """Bytes of the file and of its log."""
    return sum(path.stat().st_size for path in home.glob("kvjobs.db*") if path.suffix != ".db-shm")


def pragma(home: Path, name: str) -> object:
    connection = sqlite3.connect(home / "kvjobs.db")
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    connection.close()
    return value


def test_prune_shortens_the_file_and_says_by_how_much(kvjobs: Kvjobs, new_file: Database, home: Path) -> None:
    before = on_disk(home)

    result = kvjobs("db", "prune", 1, "--yes", "--json")

    assert result.exit_code == 0
    numbers = result.json
    assert (numbers["jobs"], numbers["documents"], numbers["bytes_free"]) == ([1], 300, 0)
    assert numbers["rows"] > 600
    assert (numbers["bytes_before"], numbers["bytes_after"]) == (before, on_disk(home))
    assert on_disk(home) < before - 300 * 1900
    assert pragma(home, "freelist_count") == 0
    assert pragma(home, "integrity_check") == "ok"
    assert kvjobs("db", "check", 2).out == "No problem found.\n"


def test_prune_says_in_a_sentence_what_the_file_takes_now(kvjobs: Kvjobs, new_file: Database, home: Path) -> None:
    said = kvjobs("db", "prune", 1, "--yes").err

    assert re.fullmatch(r"Deleted 1 job with 300 documents\. kvjobs\.db shrank by \S+ [KM]iB to \S+ KiB\.\n", said)
    assert f"to {size(on_disk(home))}." in said


def test_others_write_while_the_file_is_shortened(new_file: Database, home: Path) -> None:
    other = sqlite3.connect(home / "kvjobs.db", timeout=0.1)
    shortened = []

    def write(num_bytes: int) -> None:
        other.execute("UPDATE jobs SET priority = priority + 1")
        other.commit()
        shortened.append(num_bytes)

    prune.prune_jobs(new_file, [1], shortened=write)
    other.close()

    assert len(shortened) > 2
    assert sum(shortened) > 300 * 1900


def test_a_reader_is_not_disturbed_and_the_rest_follows_when_it_has_ended(
    kvjobs: Kvjobs, new_file: Database, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_pages, "CHECKPOINT_TRIES", 1)
    free_pages.empty_log(new_file)
    before = on_disk(home)
    with new_file.reading() as connection:
        seen = connection.exec_driver_sql("SELECT COUNT(*) FROM documents").scalar()

        said = kvjobs("db", "prune", 1, "--yes").err

        assert connection.exec_driver_sql("SELECT COUNT(*) FROM documents").scalar() == seen == 310
    assert re.search(r"takes \S+ MiB now, and \S+ KiB when those who are reading it have ended", said)
    free_pages.empty_log(new_file)
    assert on_disk(home) < before - 300 * 1900


def test_an_older_version_s_file_keeps_its_size_and_prune_names_the_command(
    kvjobs: Kvjobs, old_file: Database, home: Path
) -> None:
    result = kvjobs("db", "prune", 1, "--yes")

    free = int(str(pragma(home, "freelist_count"))) * PAGE
    assert free > 300 * 1900
    assert line_with(result.err, size(on_disk(home)), size(free), "free")
    assert "kvjobs db vacuum" in result.err


def test_vacuum_writes_an_older_version_s_file_anew_and_from_then_on_prune_shortens_it(
    kvjobs: Kvjobs, old_file: Database, home: Path
) -> None:
    kvjobs("db", "prune", 1, "--yes")
    kept = on_disk(home)

    numbers = kvjobs("db", "vacuum", "--json").json

    assert numbers == {"bytes_before": kept, "bytes_after": on_disk(home), "bytes_free": 0}
    assert on_disk(home) < kept - 300 * 1900
    assert pragma(home, "auto_vacuum") == free_pages.INCREMENTAL
    assert kvjobs("db", "check", 2).out == "No problem found.\n"
    assert "shrank by" in kvjobs("db", "prune", 2, "--yes").err
    assert pragma(home, "freelist_count") == 0


def test_vacuum_gives_back_what_something_else_left_free(kvjobs: Kvjobs, new_file: Database, home: Path) -> None:
    with new_file.writing() as connection:
        connection.exec_driver_sql("DELETE FROM translations WHERE job_id = 1")

    assert "shrank by" in kvjobs("db", "vacuum").err
    assert pragma(home, "freelist_count") == 0


def test_vacuum_is_refused_while_a_worker_is_alive_unless_it_is_forced(
    kvjobs: Kvjobs, old_file: Database, home: Path
) -> None:
    enter(old_file, dead_process())
    enter(old_file, ProcessId.current())

    refused = kvjobs("db", "vacuum")

    assert refused.exit_code == 2
    assert "workers are running" in refused.err
    assert pragma(home, "auto_vacuum") == 0
    assert kvjobs("db", "vacuum", "--force").exit_code == 0
    assert pragma(home, "auto_vacuum") == free_pages.INCREMENTAL


def test_vacuum_is_not_refused_for_a_worker_that_is_dead(kvjobs: Kvjobs, old_file: Database) -> None:
    enter(old_file, dead_process())

    assert kvjobs("db", "vacuum").exit_code == 0


def test_vacuum_is_refused_where_the_disk_has_no_room(
    kvjobs: Kvjobs, old_file: Database, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=PAGE))

    refused = kvjobs("db", "vacuum", "--force")

    assert refused.exit_code == 2
    assert "4.00 KiB are free" in refused.err
    assert pragma(home, "auto_vacuum") == 0


@ON_POSTGRESQL
def test_on_postgresql_prune_has_no_size_to_report_and_vacuum_refuses(
    kvjobs: Kvjobs, database: Database, finished_job: int
) -> None:
    numbers = kvjobs("db", "prune", finished_job, "--yes", "--json").json

    assert (numbers["documents"], numbers["bytes_before"], numbers["bytes_after"]) == (3, None, None)
    refused = kvjobs("db", "vacuum")
    assert refused.exit_code == 2
    assert "autovacuum" in refused.err
