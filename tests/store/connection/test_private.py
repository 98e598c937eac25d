"""The database is stored so that only its owner can read it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.store.database import Database


@pytest.fixture(params=[0o000, 0o022, 0o777], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_database_with_its_wal_files_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "home" / "kvjobs.db"
    database = Database.connect(f"sqlite:///{file}")

    with database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x)")
        made = {path.name: mode(path) for path in file.parent.iterdir()}
    database.close()

    assert made == {"kvjobs.db": 0o600, "kvjobs.db-wal": 0o600, "kvjobs.db-shm": 0o600}
    assert mode(file.parent) == 0o700
