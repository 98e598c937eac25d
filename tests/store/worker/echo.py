"""An engine that answers at once, a lease keeper, and a query, for tests of a lane."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import select

from jobs.spec import JobSpec, TranslateOptions
from jobs.store.database import Database
from tests.rows import translated
from worker.engine.tasks.batch_result import BatchResult
from worker.process.lease_keeper import LeaseKeeper


class Echo:
    """An engine that returns each text unchanged; `before` is called with the batch number before each batch."""

    number = 0
    warm = ()

    def __init__(self, before: Callable[[int, Callable[[], bool]], None] = lambda batch, should_stop: None) -> None:
        self.batches = 0
        self._before = before

    def open(self, spec: JobSpec) -> None:
        """Nothing to load."""

    def changed_files(self) -> list[str]:
        return []

    def translator(self, spec: JobSpec) -> "Echo":
        return self

    def translate(
        self, texts: Sequence[str], options: TranslateOptions, *, should_stop: Callable[[], bool], **_: Any
    ) -> BatchResult:
        self._before(self.batches, should_stop)
        self.batches += 1
        return BatchResult([translated(text) for text in texts], {}, [])


def keeper_of(database: Database, lease_s: float = 60.0) -> LeaseKeeper:
    return LeaseKeeper(database, 1, lease_s=lease_s, heartbeat_s=60.0)


def scalar(database: Database, column: Any) -> Any:
    with database.reading() as connection:
        return connection.execute(select(column)).scalar()
