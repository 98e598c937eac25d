"""What differs between two runs or two releases and is no part of what is compared, each set to a fixed value."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, event

from jobs.settings import OF_OTHERS
from jobs.store.database import Database
from jobs.web import rendering
from tests.databases import BOTH
from tests.parquet_files import rows_of_this_process

BEGAN = datetime(2026, 11, 20, 8, 0, 30, 250_000, tzinfo=UTC)
VERSION = "1.2.3"


class Clock:
    """The clock of a database, which stands still until it is moved. It takes the place of the functions that the
    product asks: SQLite's `strftime(format, 'now', ...)`, PostgreSQL's `clock_timestamp()`."""

    def __init__(self, database: Database) -> None:
        self.now = BEGAN
        self._database = database
        if not database.is_sqlite:
            with database.writing() as connection:
                connection.exec_driver_sql("CREATE SCHEMA fixed_clock")
                name = database.engine.url.database
                connection.exec_driver_sql(f"ALTER DATABASE {name} SET search_path = public, fixed_clock, pg_catalog")
            self.move(0.0)
        database.engine.dispose()  # so that every connection has the clock

    def move(self, seconds: float) -> None:
        """Set the clock forward."""
        self.now += timedelta(seconds=seconds)
        if not self._database.is_sqlite:
            with self._database.writing() as connection:
                connection.exec_driver_sql(
                    "CREATE OR REPLACE FUNCTION fixed_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE "
                    f"AS $$ SELECT TIMESTAMPTZ '{self.now.isoformat()}' $$"
                )

    @contextmanager
    def shown(self) -> Iterator[None]:
        """To all connections of this process, those of commands included, during the block."""
        event.listen(Engine, "connect", self._replace_strftime)
        try:
            yield
        finally:
            event.remove(Engine, "connect", self._replace_strftime)

    def _replace_strftime(self, connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.create_function("strftime", -1, self._strftime)

    def _strftime(self, _format: str, _now: str, *shift: str) -> str:
        seconds = sum(float(one.removesuffix(" seconds")) for one in shift)
        return (self.now + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


@contextmanager
def pinned(home: Path) -> Iterator[None]:
    """Fixed values in this process, which works in `home`, during the block."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("KVJOBS_") or name in OF_OTHERS.values():
                patch.delenv(name)  # settings of this machine
        patch.setenv("KVJOBS_HOME", str(home))
        patch.chdir(home)
        patch.setenv("COLUMNS", "120")  # tables fit the terminal
        patch.setenv("NO_COLOR", "1")
        patch.setenv("TZ", "UTC")  # pages have local times
        time.tzset()
        for module in ("jobs.web.rendering", "jobs.web.pages.monitoring", "jobs.store.worker_registry"):
            patch.setattr(f"{module}.__version__", VERSION)
        patch.setattr(Database, "shown_url", "the database")  # its password, and the folder of this run
        # A change of a style sheet or a script is none of the pages that name it.
        patch.setitem(rendering._environment.globals, "file_version", lambda name: "1")
        patch.setattr("jobs.store.report.metrics.SIZE", dict.fromkeys(BOTH, "SELECT 4096"))
        # How long a query took, and what a search or a comparison gets done in its time.
        standing = SimpleNamespace(monotonic=lambda: 0.0)
        for module in ("query.query", "documents.document_pages"):
            patch.setattr(f"jobs.store.report.{module}.time", standing)
        patch.setattr("jobs.comparison.compare.time", standing)
        # The models of this machine, and those that a release bundles.
        patch.setattr("jobs.web.pages.models.worker_port", lambda: SimpleNamespace(installed_models=lambda _: []))
        patch.setattr("jobs.corpus.parquet.reader.open_rows", rows_of_this_process)  # reads in a process of its own
        patch.setattr("jobs.submission.shards.SHARD_DOCUMENTS", 5)  # so that a small job has several shards
        yield
    time.tzset()
