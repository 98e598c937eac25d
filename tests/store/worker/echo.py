"""A lane whose provider answers at once, a lease keeper, and a query."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from jobs.answers import Answers
from jobs.store.database import Database
from jobs.store.queue.batches import Batch
from tests.rows import translated
from worker.engine.runtime.run_context import RunContext
from worker.process.lease_keeper import LeaseKeeper
from worker.providers.circuit_breaker import CircuitBreaker
from worker.providers.fallback import Fallback
from worker.providers.protocol import ProviderJob


class Echo:
    """A lane, and its only provider, which returns each text unchanged; `before` is called with the batch number before
    each batch."""

    number = 0
    warm = ()

    def __init__(self, before: Callable[[int, Callable[[], bool]], None] = lambda batch, should_stop: None) -> None:
        self.batches = 0
        self.fallback = Fallback(lambda _key: CircuitBreaker())
        self._before = before

    def is_local(self, name: str) -> bool:
        return True

    def provider(self, name: str) -> "Echo":
        return self

    def open(self, job: ProviderJob) -> None:
        """Nothing to load."""

    def batches_at_once(self, job: ProviderJob) -> int:
        return 1

    def changed_files(self) -> list[str]:
        return []

    def process(self, job: ProviderJob, documents: Batch, run: RunContext) -> Answers:
        self._before(self.batches, run.should_stop)
        self.batches += 1
        return Answers([translated(document.text) for document in documents])


def keeper_of(database: Database, lease_s: float = 60.0) -> LeaseKeeper:
    return LeaseKeeper(database, 1, lease_s=lease_s, heartbeat_s=60.0)


def scalar(database: Database, column: Any) -> Any:
    with database.reading() as connection:
        return connection.execute(select(column)).scalar()
