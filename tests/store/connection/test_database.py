"""Opening, migrating and locking a database."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from jobs.errors import StoreError, TransientError
from jobs.settings import sqlite_url
from jobs.store.database import Database
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.migrate import HEAD, differences, downgrade, schema_version, upgrade
from tests.databases import migrated, own_database


def test_a_new_file_gets_the_newest_schema(database: Database) -> None:
    assert schema_version(database.engine) == HEAD
    assert differences(database.engine) == []


def test_the_schema_can_be_dropped_and_created_again(database: Database) -> None:
    downgrade(database.engine)
    assert schema_version(database.engine) is None

    upgrade(database.engine)

    assert differences(database.engine) == []


def test_a_database_from_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kvjobs.db'}"
    Database.open(url).close()
    with sqlite3.connect(tmp_path / "kvjobs.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()

    with pytest.raises(StoreError, match=r"newer kvjobs.*9999"):
        Database.open(url)


def test_a_refused_database_is_closed_at_once(tmp_path: Path) -> None:
    """A worker that waits for its database opens it repeatedly; each refusal used to leave two or three files
    open until Python collected its garbage."""
    file = tmp_path / "kvjobs.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "CREATE TABLE alembic_version (version_num); INSERT INTO alembic_version VALUES (9999)"
        )

    with pytest.raises(StoreError, match="newer kvjobs") as refused:  # the traceback would keep unclosed files alive
        Database.open(f"sqlite:///{file}")

    assert _open_files_below(tmp_path) == [], refused.traceback


def test_a_connection_that_is_in_use_when_the_database_is_closed_is_closed_after_its_transaction(
    tmp_path: Path, empty_database: Path
) -> None:
    shutil.copy(empty_database, tmp_path / "kvjobs.db")
    database = Database.open(sqlite_url(tmp_path / "kvjobs.db"))

    with database.reading() as connection:
        database.close()
        assert connection.scalar(text("SELECT 1")) == 1

    assert _open_files_below(tmp_path) == []


def _open_files_below(folder: Path) -> list[str]:
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of this listing itself
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [name for name in names if Path(name).is_relative_to(folder)]


def test_a_file_that_is_not_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "kvjobs.db"
    file.write_bytes(b"my thesis, only copy" * 100)

    with pytest.raises(StoreError, match="not a database"):
        Database.open(f"sqlite:///{file}")

    assert file.read_bytes() == b"my thesis, only copy" * 100


def test_a_locked_database_is_a_transient_error(tmp_path: Path) -> None:
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


def test_a_reader_never_waits_for_a_writer(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(text("DELETE FROM jobs"))
        with database.reading() as reader:
            assert reader.execute(text("SELECT COUNT(*) FROM jobs")).scalar() == 0


def test_writers_wait_for_each_other(sqlite: Database) -> None:
    with sqlite.writing() as connection:
        connection.execute(text("CREATE TABLE tally (n INTEGER)"))
        connection.execute(text("INSERT INTO tally VALUES (0)"))

    def add() -> None:
        for _ in range(20):
            with sqlite.writing() as connection:
                n = connection.execute(text("SELECT n FROM tally")).scalar_one()
                connection.execute(text("UPDATE tally SET n = :n"), {"n": n + 1})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with sqlite.reading() as connection:
        assert connection.execute(text("SELECT n FROM tally")).scalar() == 80


def test_any_number_of_threads_can_have_a_transaction_open(database: Database) -> None:
    everybody = threading.Barrier(40)
    met = []

    def read() -> None:
        with database.reading() as connection:
            connection.execute(text("SELECT 1"))
            met.append(everybody.wait(timeout=10))

    threads = [threading.Thread(target=read) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(met) == 40


def test_a_pool_without_a_free_connection_is_a_transient_error(sqlite: Database) -> None:
    narrow = Database(create_engine(sqlite.engine.url, pool_size=1, max_overflow=0, pool_timeout=0.01))

    with narrow.reading(), pytest.raises(TransientError, match="in use"), narrow.reading():
        pass
    narrow.close()


def test_a_thread_that_writes_continuously_does_not_starve_the_others(sqlite: Database) -> None:
    """SQLite's own lock wait may favour a busy writer repeatedly over a waiting one."""
    turns: list[str] = []
    begun = threading.Event()

    def write_again_and_again() -> None:
        while len(turns) < 200 and "patient" not in turns:
            with sqlite.writing():
                turns.append("busy")
                begun.set()
                time.sleep(0.002)

    busy = [threading.Thread(target=write_again_and_again) for _ in range(3)]
    for thread in busy:
        thread.start()
    assert begun.wait(timeout=10)
    with sqlite.writing():
        turns.append("patient")
    for thread in busy:
        thread.join()

    assert turns.index("patient") < 50


def test_a_transaction_that_raises_is_rolled_back(sqlite: Database) -> None:
    def half() -> None:
        with sqlite.writing() as connection:
            connection.execute(text("CREATE TABLE half_made (n INTEGER)"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()

    with sqlite.reading() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM sqlite_master WHERE name = 'half_made'")).scalar() == 0


def test_a_file_that_is_replaced_while_it_is_open_is_opened_again(tmp_path: Path) -> None:
    file, copy = tmp_path / "kvjobs.db", tmp_path / "copy.db"
    database = Database.open(f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE since_the_copy (x)")

    for log in ("kvjobs.db-wal", "kvjobs.db-shm"):  # SQLite would apply them to any file of this name
        (tmp_path / log).unlink()
    copy.replace(file)

    with database.reading() as connection:
        assert connection.execute(text("SELECT name FROM sqlite_master WHERE name = 'since_the_copy'")).all() == []
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE since_the_restore (x)")
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT count(*) FROM since_the_restore").fetchone() == (0,)
    database.close()


def test_a_file_that_was_deleted_is_an_error_and_is_not_created_again(tmp_path: Path) -> None:
    file = tmp_path / "kvjobs.db"
    database = Database.open(f"sqlite:///{file}")

    file.rename(tmp_path / "elsewhere.db")

    for _ in range(3):  # the pool drops the connection and opens the file again
        with pytest.raises(StoreError, match="was deleted"), database.writing():
            pass
    assert not file.exists()
    (tmp_path / "elsewhere.db").rename(file)
    with database.writing() as connection:
        assert connection.execute(text("SELECT count(*) FROM jobs")).scalar() == 0
    database.close()


def test_a_connection_that_the_server_ended_is_a_transient_error_and_the_next_one_works(postgresql: Database) -> None:
    def work_on_an_ended_connection() -> None:
        with postgresql.writing() as connection:
            me = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with postgresql.writing() as other:
                other.execute(text(f"SELECT pg_terminate_backend({me})"))
            connection.execute(text("SELECT 1"))

    with pytest.raises(TransientError, match="was lost"):
        work_on_an_ended_connection()

    with postgresql.reading() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1


def test_the_database_works_after_all_idle_connections_were_cut(postgresql: Database) -> None:
    with postgresql.reading(), postgresql.reading(), postgresql.reading():
        pass
    everyone_else = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = "
    )
    with postgresql.writing() as connection:
        connection.execute(text(everyone_else + "current_database()"))

    for _ in range(4):
        with postgresql.reading() as connection:
            assert connection.execute(text("SELECT 1")).scalar() == 1


def test_a_server_that_does_not_answer_is_a_transient_error() -> None:
    with pytest.raises(TransientError, match=r"does not answer.*is it running"):
        Database.open("postgresql://kvjobs:secret@127.0.0.1:1/kvjobs")


@pytest.fixture
def crossed(postgresql: Database) -> Iterator[None]:
    """A table with two rows, dropped afterwards: the database is shared, and `db check` reports unknown tables."""
    with postgresql.writing() as connection:
        connection.execute(text("CREATE TABLE crossed (n INTEGER PRIMARY KEY, x INTEGER)"))
        connection.execute(text("INSERT INTO crossed VALUES (1, 0), (2, 0)"))
    yield
    with postgresql.writing() as connection:
        connection.execute(text("DROP TABLE crossed"))


@pytest.mark.usefixtures("crossed")
def test_a_deadlock_is_a_transient_error(postgresql: Database) -> None:
    started = threading.Barrier(2)
    raised: list[Exception] = []

    def take(first: int, second: int) -> None:
        try:
            with postgresql.writing() as connection:
                connection.execute(text(f"UPDATE crossed SET x = x + 1 WHERE n = {first}"))
                started.wait()
                connection.execute(text(f"UPDATE crossed SET x = x + 1 WHERE n = {second}"))
        except TransientError as error:
            raised.append(error)

    threads = [threading.Thread(target=take, args=order) for order in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(raised) == 1
    assert "blocked each other" in str(raised[0])


def test_a_reading_transaction_sees_one_snapshot(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(tables.SingletonRole.__table__.insert().values(name="a", holder="x", held_until=db_time()))
    with database.reading() as connection:
        before = connection.execute(text("SELECT COUNT(*) FROM posts")).scalar()
        with database.writing() as other:
            other.execute(tables.SingletonRole.__table__.insert().values(name="b", holder="x", held_until=db_time()))
        assert connection.execute(text("SELECT COUNT(*) FROM posts")).scalar() == before


def test_two_upgrades_at_once_wait_for_each_other() -> None:
    with own_database() as url:
        failed: list[BaseException] = []

        def run() -> None:
            try:
                migrated(url)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert not failed
        database = Database.open(url)
        assert differences(database.engine) == []
        database.close()


def test_cutting_the_connections_raises_in_a_thread_that_waits_for_an_answer(postgresql: Database) -> None:
    raised: list[Exception] = []
    asking = threading.Event()

    def wait_for_ever() -> None:
        try:
            with postgresql.writing() as connection:
                connection.execute(text("SELECT 1"))
                asking.set()
                connection.execute(text("SELECT pg_sleep(3600)"))
        except TransientError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait_for_ever)
    waiting.start()
    asking.wait()
    assert not postgresql.cut_connections(silence_s=60)
    assert postgresql.cut_connections(silence_s=0)
    waiting.join(20)

    assert not waiting.is_alive()
    assert "was lost" in str(raised[0])
    assert not postgresql.cut_connections(silence_s=0)
    with postgresql.reading() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1


@pytest.fixture
def worker_like(postgresql: Database) -> Iterator[Database]:
    """A database opened as a worker opens it, but with shorter timeouts."""
    url = postgresql.engine.url.render_as_string(hide_password=False)
    database = Database.open(url, busy_timeout_s=0.2, silence_s=0.2)
    yield database
    database.close()


def test_a_worker_suspended_in_a_transaction_holds_its_locks_no_longer_than_a_lease(
    postgresql: Database, worker_like: Database
) -> None:
    def sleep_with_a_lock() -> None:
        with worker_like.writing() as connection:
            connection.execute(text("LOCK TABLE posts"))
            with postgresql.writing() as other:
                other.execute(text("LOCK TABLE posts"))  # succeeds once the server has ended the first transaction
            connection.execute(text("SELECT 1"))

    with pytest.raises(TransientError, match="was lost"):
        sleep_with_a_lock()


def test_a_worker_waits_for_a_lock_no_longer_than_for_a_locked_file(
    postgresql: Database, worker_like: Database
) -> None:
    with postgresql.writing() as connection:
        connection.execute(text("LOCK TABLE posts"))
        with pytest.raises(TransientError, match="lock timeout"), worker_like.writing() as other:
            other.execute(text("LOCK TABLE posts"))


def test_two_homes_whose_names_differ_behind_a_question_mark_have_two_databases(tmp_path: Path) -> None:
    for name in ("a?b", "a?c", "a"):
        Database.open(sqlite_url(tmp_path / name / "kvjobs.db")).close()

    assert {path.parent.name for path in tmp_path.rglob("kvjobs.db")} == {"a?b", "a?c", "a"}
