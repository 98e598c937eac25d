"""Databases with alembic as a program, with a second process that creates the same file, and on a full disk."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from jobs.errors import TransientError
from jobs.store.database import Database
from tests.places import CHECKOUT


def test_the_alembic_command_finds_nothing_to_migrate(database: Database) -> None:
    url = database.engine.url.render_as_string(hide_password=False)

    checked = subprocess.run(
        [sys.executable, "-m", "alembic", "check"],
        cwd=CHECKOUT,
        env=os.environ | {"KVJOBS_DATABASE": url},
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


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


def test_a_full_disk_is_reported_and_writing_works_again_once_there_is_room(tiny_disk: Path) -> None:
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


def test_two_processes_can_create_the_same_database_at_once(tmp_path: Path) -> None:
    code = f"from jobs.store.database import Database; Database.open('sqlite:///{tmp_path / 'new.db'}')"
    both = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(2)]

    errors = [process.communicate()[1] for process in both]

    assert [process.returncode for process in both] == [0, 0], errors
