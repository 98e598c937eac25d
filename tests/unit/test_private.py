"""What people submit lies where nobody but them can read it."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.private import is_readable_by_others, make_file, make_folder
from jobs.store.database import Database
from tests.command_line import Kvjobs


@pytest.fixture(params=[0o000, 0o022, 0o777], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_for_their_owner_whatever_the_umask_and_what_was_there_stays(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    make_folder(tmp_path / "a" / "b")

    assert [mode(tmp_path), mode(tmp_path / "a"), mode(tmp_path / "a" / "b")] == [0o755, 0o700, 0o700]

    (tmp_path / "a").chmod(0o755)
    make_folder(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o755


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    make_file(tmp_path / "file")

    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "file" / "inner")


def test_a_file_is_for_its_owner_and_one_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    make_file(tmp_path / "new")
    assert mode(tmp_path / "new") == 0o600

    (tmp_path / "new").write_text("ours")
    (tmp_path / "new").chmod(0o640)
    make_file(tmp_path / "new")
    assert (mode(tmp_path / "new"), (tmp_path / "new").read_text()) == (0o640, "ours")


def test_a_new_database_and_its_companions_are_for_their_owner(tmp_path: Path) -> None:
    file = tmp_path / "home" / "kvjobs.db"
    database = Database.connect(f"sqlite:///{file}")

    with database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x)")
        made = {path.name: mode(path) for path in file.parent.iterdir()}
    database.close()

    assert made == {"kvjobs.db": 0o600, "kvjobs.db-wal": 0o600, "kvjobs.db-shm": 0o600}
    assert mode(file.parent) == 0o700


def test_doctor_names_a_database_that_others_may_read(kvjobs: Kvjobs, home: Path) -> None:
    for folder in (home, *home.parents):
        if folder.owner() == Path.home().owner() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    file = home / "kvjobs.db"
    sqlite3.connect(file).close()
    file.touch()
    file.chmod(0o644)

    found = {check["name"]: check for check in kvjobs("doctor", "--json").json["checks"]}["database files"]

    assert (found["ok"], found["is_warning"], found["mend"]) == (True, True, f"chmod 600 {file}")

    home.chmod(0o700)  # nobody gets that far
    assert not is_readable_by_others(file)
    assert "database files" not in kvjobs("doctor").out
