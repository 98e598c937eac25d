"""Deaths of sandboxes: disposable processes that retry a suspect batch."""

from sqlalchemy import select

from jobs.errors import StaleLease
from jobs.store.batches import Batch
from jobs.store.circuit_breaker import SANDBOX_DIED, pause_after_deaths
from jobs.store.database import Database
from jobs.store.job_counters import lock_counters
from jobs.store.schema.tables import Shard
from jobs.store.shard_events import log_event
from jobs.store.work import Work, fence, positions_json


def log_death(database: Database, work: Work, batch: Batch, how: str) -> bool:
    """Log at once, before any result, that a sandbox died while it processed these documents; whether the circuit
    breaker paused the job. `how` is the exit of the process in words. Raises StaleLease where the lease is lost."""
    with database.writing() as connection:
        if connection.execute(select(Shard.id).where(*fence(work)).with_for_update()).first() is None:
            raise StaleLease(f"shard {work.shard_id} of job {work.job_id} was leased again after epoch {work.epoch}")
        lock_counters(connection, work.job_id)
        detail = f"{positions_json(batch)} {how}"
        log_event(connection, work.job_id, work.shard_id, SANDBOX_DIED, work.epoch, work.worker_id, len(batch), detail)
        return pause_after_deaths(connection, work.job_id)
