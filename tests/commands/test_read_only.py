"""Reading commands work on a read-only database; writing commands are refused with one sentence."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from jobs.store.database import Database
from tests.command_line import Kvjobs
from tests.databases import ON_POSTGRESQL, as_superuser
from tests.messages import line_with
from tests.rows import AddJob, Line, insert_job

NOBODY = 65534


@contextmanager
def as_unprivileged_user() -> Iterator[None]:
    """Run as the user `nobody` if this is root, because root may write files of any mode."""
    if os.geteuid():
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, empty_database: Path) -> Iterator[Path]:
    """A folder that every user may enter, with the database of one finished job; it is the current folder."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    shutil.copy(empty_database, folder / "kvjobs.db")
    (folder / "kvjobs.db").chmod(0o644)
    database = Database.open(f"sqlite:///{folder / 'kvjobs.db'}")
    insert_job(database, [Line("a", "甲", fields={"lang": "en"}), Line("b", "乙")])
    database.close()
    monkeypatch.chdir(folder)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


READING = (
    *(("ls",), ("show", 1), ("export", 1), ("export", 1, "--where", "lang = 'en'"), ("steps", 1), ("watch", 1)),
    *(("query", "select count(*) from v_documents"), ("wait", 1), ("db", "check", 1)),
)


def outputs(kvjobs: Kvjobs) -> dict[tuple[object, ...], str]:
    results = {command: kvjobs(*command) for command in READING}
    assert {result.exit_code for result in results.values()} == {0}
    return {command: result.out for command, result in results.items()}


def check_that_reading_works_and_writing_is_refused(kvjobs: Kvjobs, before: dict[tuple[object, ...], str]) -> None:
    assert outputs(kvjobs) == before
    refused = kvjobs("db", "prune", 1, "--yes")
    assert (refused.exit_code, refused.err.count("\n")) == (1, 1), refused.err
    assert line_with(refused.err, "only", "read")


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o755), (0o644, 0o555)])
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open elsewhere"])
def test_a_read_only_file_can_be_read(
    kvjobs: Kvjobs, home: Path, place: Path, monkeypatch: pytest.MonkeyPatch, file: int, folder: int, is_open: bool
) -> None:
    """With -wal and -shm files, as beside a running worker, and without."""
    monkeypatch.setenv("KVJOBS_HOME", str(place))
    monkeypatch.chdir(place)
    before = outputs(kvjobs)  # also imports modules that only root may read
    writer = Database.open(f"sqlite:///{place / 'kvjobs.db'}")
    try:
        if is_open:
            insert_job(writer, [Line("c", "丙")], name="in the log alone")
            before = outputs(kvjobs)
            assert (place / "kvjobs.db-wal").stat().st_size
        else:
            writer.close()
        for path in place.glob("kvjobs.db*"):
            path.chmod(file)
        place.chmod(folder)
        names = sorted(path.name for path in place.iterdir())

        with as_unprivileged_user():
            check_that_reading_works_and_writing_is_refused(kvjobs, before)

        assert sorted(path.name for path in place.iterdir()) == names, "no file was created beside the database"
    finally:
        place.chmod(0o755)
        writer.close()


def test_an_unreadable_write_ahead_log_is_not_ignored(
    kvjobs: Kvjobs, home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of a database in use has a -wal file without -shm; if the log were ignored, jobs would silently miss."""
    monkeypatch.setenv("KVJOBS_HOME", str(place))
    monkeypatch.chdir(place)
    assert kvjobs("ls").exit_code == 0
    (place / "kvjobs.db-wal").write_bytes(b"\0" * 4096)
    place.chmod(0o555)

    with as_unprivileged_user():
        refused = kvjobs("ls")

    assert (refused.exit_code, refused.err.count("\n")) == (1, 1)
    assert "last changes" in refused.err


def test_a_read_only_database_with_an_older_schema_is_refused_with_one_sentence(
    kvjobs: Kvjobs, home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_HOME", str(place))
    database = Database.open(f"sqlite:///{place / 'kvjobs.db'}")
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    database.close()
    place.chmod(0o555)

    with as_unprivileged_user():
        refused = kvjobs("ls")

    assert (refused.exit_code, refused.err.count("\n")) == (1, 1)
    assert line_with(refused.err, "older", "0001")


@ON_POSTGRESQL
def test_a_read_only_postgresql_session_can_read(kvjobs: Kvjobs, database: Database, add_job: AddJob) -> None:
    job = add_job(Line("a", "甲", fields={"lang": "en"}))
    name = database.engine.url.username
    before = outputs(kvjobs)
    with as_superuser() as server:
        server.execute(text(f"ALTER ROLE {name} SET default_transaction_read_only = on"))
    try:
        assert outputs(kvjobs) == before
        refused = kvjobs("db", "prune", job, "--yes")
        assert (refused.exit_code, refused.err.count("\n")) == (1, 1), refused.err
        assert "no writes" in refused.err
    finally:
        with as_superuser() as server:
            server.execute(text(f"ALTER ROLE {name} RESET default_transaction_read_only"))
