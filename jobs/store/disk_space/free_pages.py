"""The free pages of a SQLite file: how many there are, and giving them back to the disk.

Deleted rows leave free pages in the file, which later rows use. A file with `auto_vacuum = INCREMENTAL`, as kvjobs
creates it, can be shortened while others write: some pages at a time move from its end into free ones, and the end is
cut off. A file of an older version can only be written anew as a whole (`rewrite_file`).

In WAL mode all of this happens in the log first. The file itself gets shorter at a checkpoint that copies all of the
log into it.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from jobs.errors import SpecError
from jobs.store.connection.database_errors import explain
from jobs.store.database import Database
from jobs.store.worker_registry import any_alive
from jobs.system.failpoints import failpoint
from jobs.text.formatting import size

INCREMENTAL = 2  # of PRAGMA auto_vacuum
CHECKPOINT_WAIT_S = 0.05  # for each reader and writer, while a checkpoint holds the write lock
CHECKPOINT_TRIES = 40  # with pauses of as long, for readers that end meanwhile


@dataclass(frozen=True, slots=True)
class FileSpace:
    """The size of a SQLite file, and what of it is free."""

    name: str
    num_bytes: int  # of the file and its log (-wal), as they are on the disk
    settled_bytes: int  # of the file, once the log is copied into it
    is_settled: bool  # False: a reader has prevented that so far
    used_bytes: int  # in pages that hold something
    free_bytes: int  # in free pages, which later rows use
    is_incremental: bool  # whether `give_back_free_pages` can shorten the file


def file_space(database: Database) -> FileSpace | None:
    """The size of the SQLite file and of its free pages; None for a server, which does not tell about its disk."""
    if not database.is_sqlite:
        return None
    path = _path(database)
    with database.reading() as connection:
        page_size, pages, free = (_pragma(connection, name) for name in ("page_size", "page_count", "freelist_count"))
        is_incremental = _pragma(connection, "auto_vacuum") == INCREMENTAL
    main, log = _size(path), _size(path.with_name(f"{path.name}-wal"))
    return FileSpace(
        path.name,
        main + log,
        pages * page_size,
        main <= pages * page_size,
        (pages - free) * page_size,
        free * page_size,
        is_incremental,
    )


def give_back_free_pages(
    database: Database, advance: Callable[[int], None] = lambda num_bytes: None, *, unless_fewer_than: int = 1
) -> None:
    """Cut the free pages off a SQLite file, where that is possible (`FileSpace.is_incremental`), while others write.
    `advance` is called with the number of bytes after each transaction. If interrupted, call it again. The file itself
    gets shorter with `empty_log`."""
    if not database.is_sqlite:
        return
    with database.reading() as connection:
        page_size, free = _pragma(connection, "page_size"), _pragma(connection, "freelist_count")
        if _pragma(connection, "auto_vacuum") != INCREMENTAL or free < unless_fewer_than:
            return

    def count(pages: int) -> None:
        failpoint("in-give-back")
        advance(pages * page_size)

    write_in_turns(database, partial(_cut_off, database), count)


def empty_log(database: Database) -> None:
    """Copy the log of a SQLite file into it, which makes it shorter (`FileSpace.is_settled`). A reader that began
    before the last change prevents it for as long as it reads; then the next checkpoint does it, whoever makes it."""
    if not database.is_sqlite:
        return
    with _driver(database) as driver:
        waits_ms = driver.execute("PRAGMA busy_timeout").fetchone()[0]
        driver.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAIT_S * 1000:.0f}")
        try:
            for _ in range(CHECKPOINT_TRIES):
                driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()  # most of it, while others write
                is_busy, *_pages = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not is_busy:
                    return
                time.sleep(CHECKPOINT_WAIT_S)
        finally:
            driver.execute(f"PRAGMA busy_timeout = {waits_ms}")


def check_rewrite(database: Database, silence_s: float, *, force: bool = False) -> None:
    """Raises SpecError where the disk has no room for `rewrite_file`, and, without `force`, where a worker is alive:
    one that sent a heartbeat within `silence_s`, and whose process is not known to be dead."""
    if not force and any_alive(database, silence_s):
        raise SpecError(
            "workers are running, and could record nothing while the file is written anew; stop them, or give --force "
            "to let them wait"
        )
    _refuse_without_room(database)


def rewrite_file(database: Database) -> None:
    """Write a SQLite file anew without its free pages (VACUUM), as one that `give_back_free_pages` can shorten from
    then on. Others who write wait until it is done. Interrupted, it leaves the file as it was."""
    with _driver(database) as driver:
        driver.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect with the VACUUM
        driver.execute("VACUUM")
    empty_log(database)


def _cut_off(database: Database, connection: Connection, pages: int) -> int:
    """Move pages from the end of the file into free ones, and cut the end off; returns by how many pages."""
    before = _pragma(connection, "page_count")
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    # One page a statement: Python's sqlite3 takes one step of a statement without columns, and one step moves one page.
    with _explained(database):
        for _ in range(pages):
            driver.execute("PRAGMA incremental_vacuum(1)")
    return before - _pragma(connection, "page_count")


def _refuse_without_room(database: Database) -> None:
    """VACUUM writes what is in use twice: into a temporary file, and from there into the log."""
    space = file_space(database)
    assert space is not None
    own, temporary = _path(database).absolute().parent, _temporary_folder()
    if own.stat().st_dev == temporary.stat().st_dev:
        needed = {own: 2 * space.used_bytes}
    else:
        needed = {own: space.used_bytes, temporary: space.used_bytes}
    for folder, num_bytes in needed.items():
        if (free := shutil.disk_usage(folder).free) < num_bytes:
            raise SpecError(
                f"writing the file anew takes {size(num_bytes)} for a while in {folder}, where {size(free)} are free; "
                "free some space first"
            )


def _temporary_folder() -> Path:
    """Where SQLite writes temporary files (sqlite.org/tempfiles.html, 5)."""
    named = (os.environ.get(name) for name in ("SQLITE_TMPDIR", "TMPDIR"))
    folders = map(Path, filter(None, (*named, "/var/tmp", "/usr/tmp", "/tmp")))
    return next((folder for folder in folders if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)), Path())


@contextmanager
def _driver(database: Database) -> Iterator[sqlite3.Connection]:
    """The driver's connection, outside a transaction."""
    with database.translated_errors(), database.engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        with _explained(database):
            yield driver


@contextmanager
def _explained(database: Database) -> Iterator[None]:
    """Raise the errors of the driver itself as errors of kvjobs."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(DBAPIError(None, None, error), database.shown_url, database.file) from error


def _path(database: Database) -> Path:
    return Path(str(database.engine.url.database))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # there is no log before the first write
        return 0


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())


HOLD_S = 0.03  # of each transaction; the rest up to 0.1 s is for a busy disk
LEAST, FIRST, MOST = 16, 128, 5_000  # rows or pages of a transaction

Write = Callable[[Connection, int], int]  # writes at most so many rows or pages; how many it wrote


def write_in_turns(database: Database, write: Write, advance: Callable[[int], None]) -> None:
    """Call `write` in one transaction after the other until it writes nothing. `advance` is called with the number of
    rows or pages after each.

    SQLite has one writer at a time. How much a transaction is asked to write follows from how long the one before held
    the lock: pages that lie in memory are deleted many times as fast as those that are read from a disk. Then the lock
    is free for as long as it was held: a waiting writer of another process polls, and finds only a pause that is long
    enough. A server locks nothing but the rows that are deleted, so there every transaction is large: each one passes
    over the dead rows of those before.
    """
    amount = FIRST if database.is_sqlite else MOST
    while True:
        with database.writing() as connection:
            began = time.monotonic()  # after the wait for the lock
            written = write(connection, amount)
        held = time.monotonic() - began
        if not written:
            return
        advance(written)
        if database.is_sqlite:
            amount = int(min(max(amount * min(max(HOLD_S / held, 0.25), 2.0), LEAST), MOST))
            time.sleep(held)
