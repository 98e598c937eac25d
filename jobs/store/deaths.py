"""The log of sacrificial processes that died."""

from jobs.store.batches import Batch
from jobs.store.breaker import SACRIFICED, pause_if_deadly
from jobs.store.database import Database
from jobs.store.leases import Work, positions
from jobs.store.ledger import lock, log_event


def log_death(database: Database, work: Work, batch: Batch, how: str) -> bool:
    """Log at once, before any result, that a process died with these documents in hand; whether that was one death
    too many, and the job is paused now."""
    with database.writing() as connection:
        lock(connection, work.job_id)
        detail = f"{positions(batch)} {how}"
        log_event(connection, work.job_id, work.shard_id, SACRIFICED, work.epoch, work.worker_id, len(batch), detail)
        return pause_if_deadly(connection, work.job_id)
