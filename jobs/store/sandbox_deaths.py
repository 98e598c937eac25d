"""The log of sacrificial processes that died."""

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
    """Log at once, before any result, that a process died with these documents in hand; whether that was one death
    too many, and the job is paused now. Raises StaleLease where the shard is no longer ours."""
    with database.writing() as connection:
        if connection.execute(select(Shard.id).where(*fence(work)).with_for_update()).first() is None:
            raise StaleLease(f"shard {work.shard_id} of job {work.job_id} was taken over after epoch {work.epoch}")
        lock_counters(connection, work.job_id)
        detail = f"{positions_json(batch)} {how}"
        log_event(connection, work.job_id, work.shard_id, SANDBOX_DIED, work.epoch, work.worker_id, len(batch), detail)
        return pause_after_deaths(connection, work.job_id)
