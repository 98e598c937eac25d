"""A database that may only be read, is read; whoever would write it is told."""

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
from tests.rows import AddJob, Line, insert_job

NOBODY = 65534


@contextmanager
def without_powers() -> Iterator[None]:
    """As an account whose rights are what the modes of files say: root may write whatever its mode."""
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
    """A folder that everybody may enter, with the database of one finished job; it is the current one and the home."""
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


def everything_is_read_and_nothing_written(kvjobs: Kvjobs, before: dict[tuple[object, ...], str]) -> None:
    assert outputs(kvjobs) == before
    refused = kvjobs("db", "prune", 1, "--yes")
    assert (refused.exit_code, refused.err.count("\n")) == (1, 1), refused.err
    assert "may only be read" in refused.err


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o755), (0o644, 0o555)])
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open elsewhere"])
def test_a_file_that_may_only_be_read_is_read(
    kvjobs: Kvjobs, home: Path, place: Path, monkeypatch: pytest.MonkeyPatch, file: int, folder: int, is_open: bool
) -> None:
    """Whether -wal and -shm are there, as beside a worker, or not."""
    monkeypatch.setenv("KVJOBS_HOME", str(place))
    monkeypatch.chdir(place)
    before = outputs(kvjobs)  # and loads what only root may load
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

        with without_powers():
            everything_is_read_and_nothing_written(kvjobs, before)

        assert sorted(path.name for path in place.iterdir()) == names, "nothing was made beside the file"
    finally:
        place.chmod(0o755)
        writer.close()


def test_a_log_that_cannot_be_read_is_not_passed_over(
    kvjobs: Kvjobs, home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a database that was in use: -wal without -shm. Without the log, jobs would be missing in silence."""
    monkeypatch.setenv("KVJOBS_HOME", str(place))
    monkeypatch.chdir(place)
    assert kvjobs("ls").exit_code == 0
    (place / "kvjobs.db-wal").write_bytes(b"\0" * 4096)
    place.chmod(0o555)

    with without_powers():
        refused = kvjobs("ls")

    assert (refused.exit_code, refused.err.count("\n")) == (1, 1)
    assert "the last changes of" in refused.err


def test_an_older_schema_that_may_only_be_read_is_one_sentence(
    kvjobs: Kvjobs, home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVJOBS_HOME", str(place))
    database = Database.open(f"sqlite:///{place / 'kvjobs.db'}")
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    database.close()
    place.chmod(0o555)

    with without_powers():
        refused = kvjobs("ls")

    assert (refused.exit_code, refused.err.count("\n")) == (1, 1)
    assert "of an older version (0001;" in refused.err


@ON_POSTGRESQL
def test_a_session_that_is_read_only_reads(kvjobs: Kvjobs, database: Database, add_job: AddJob) -> None:
    job = add_job(Line("a", "甲", fields={"lang": "en"}))
    name = database.engine.url.username
    before = outputs(kvjobs)
    with as_superuser() as server:
        server.execute(text(f"ALTER ROLE {name} SET default_transaction_read_only = on"))
    try:
        assert outputs(kvjobs) == before
        refused = kvjobs("db", "prune", job, "--yes")
        assert (refused.exit_code, refused.err.count("\n")) == (1, 1), refused.err
        assert "takes no writes now" in refused.err
    finally:
        with as_superuser() as server:
            server.execute(text(f"ALTER ROLE {name} RESET default_transaction_read_only"))
