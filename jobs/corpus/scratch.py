"""Temporary tables on disk for a corpus that does not fit into memory, in an unlinked file."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from jobs.errors import KvjobsError
from jobs.system.private import make_folder

CACHE_KIB = 65_536


@contextmanager
def scratch_tables(spool: Path, script: str, what: str) -> Iterator[sqlite3.Connection]:
    """An empty SQLite database, set up by `script`, in the folder `spool`. Raises KvjobsError, which names `what`,
    where the disk is full or the folder cannot be used."""
    try:
        make_folder(spool)
        handle, name = tempfile.mkstemp(dir=spool, suffix=".sqlite3")
        os.close(handle)
        with closing(sqlite3.connect(name, isolation_level=None)) as tables:
            try:
                # Without journal and locks: no other process opens the file, and it is not needed after a crash.
                for setting in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
                    tables.execute(f"PRAGMA {setting}")
                tables.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
                tables.executescript(script)
            finally:
                os.unlink(name)
            tables.execute("BEGIN")
            yield tables
    except (sqlite3.OperationalError, OSError) as error:
        raise KvjobsError(
            f"{what} cannot be stored in {spool}: {error}; free some space there, or set KVJOBS_HOME"
        ) from None
