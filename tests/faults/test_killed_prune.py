"""`kvjobs db prune` that is killed with SIGKILL between two transactions, and run again."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import func, select

from jobs.store.database import Database
from jobs.store.schema.tables import Base, Job
from tests.databases import ON_BOTH, ON_SQLITE
from tests.rows import Line, insert_job

LINES = [Line(f"d{number}", "译" * 300, text="x" * 1000) for number in range(300)]


def db(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "jobs.cli.main", "db", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def killed_at(failpoint: str, tmp_path: Path, times: int) -> None:
    """Run `db prune 1` so often, each time until it has got one transaction further."""
    point = {"KVJOBS_FAILPOINTS": f"{failpoint}:kill:{times}", "KVJOBS_FAILPOINTS_LOG": str(tmp_path / "hits")}
    for _ in range(times):
        assert db("prune", "1", "--yes", **point).returncode == -signal.SIGKILL


def rows_of(database: Database, job_id: int) -> int:
    with database.reading() as connection:
        found = [connection.scalar(select(func.count()).where(Job.id == job_id))]
        for table in Base.metadata.tables.values():
            if "job_id" in table.c and table.name != "job_actions":
                found.append(connection.scalar(select(func.count()).where(table.c.job_id == job_id)))
    return sum(number or 0 for number in found)


@ON_BOTH
@pytest.mark.parametrize("times", [1, 4])
def test_after_a_kill_between_two_batches_the_same_command_deletes_the_rest(
    database: Database, tmp_path: Path, times: int
) -> None:
    insert_job(database, LINES, name="nightly")
    insert_job(database, LINES[:10])

    killed_at("in-prune", tmp_path, times)

    assert rows_of(database, 1) > 0
    assert db("check").stdout == "No problem found.\n"
    again = db("prune", "1", "--yes")
    assert again.returncode == 0, again.stderr
    assert rows_of(database, 1) == 0
    assert db("check", "2").stdout == "No problem found.\n"


@ON_SQLITE
def test_after_a_kill_while_the_file_gets_shorter_the_same_command_gives_back_the_rest(
    database: Database, home: Path, tmp_path: Path
) -> None:
    insert_job(database, LINES)
    insert_job(database, LINES[:10])
    database.close()
    before = (home / "kvjobs.db").stat().st_size

    killed_at("in-give-back", tmp_path, 2)

    with sqlite3.connect(home / "kvjobs.db") as file:
        assert file.execute("PRAGMA freelist_count").fetchone()[0] > 50
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()
    again = db("prune", "1", "--yes")
    assert again.returncode == 0, again.stderr
    assert rows_of(database, 1) == 0
    database.close()
    with sqlite3.connect(home / "kvjobs.db") as file:
        assert file.execute("PRAGMA freelist_count").fetchone() == (0,)
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()
    assert (home / "kvjobs.db").stat().st_size < before - 300 * 1900
    assert db("check", "2").stdout == "No problem found.\n"
