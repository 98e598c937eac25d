"""The circuit breaker: a job is paused when its worker processes die one after the other, as with a bad model.

Deaths of sandboxes, disposable processes that retry a suspect batch, are logged here; those of workers where their
leases are taken back.
"""

from sqlalchemy import Connection, distinct, func, select, update

from jobs.errors import StaleLease
from jobs.store.database import Database
from jobs.store.queue.batches import Batch
from jobs.store.queue.job_counters import lock_counters
from jobs.store.queue.pauses import how_to_verify, paused_values
from jobs.store.queue.shard_events import log_event
from jobs.store.queue.work import Work, fence, positions_json
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Job, Shard, ShardEvent

MAX_DEATHS = 20
WITHIN_S = 600.0

# Events of a shard
WORKER_GONE = ("lost", "expired")  # a worker died or fell silent, with its leases
SANDBOX_DIED = "died"  # a disposable process for one suspect batch died
QUARANTINED = "quarantined"


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


def pause_after_deaths(connection: Connection, job_id: int) -> bool:
    """Pause a job if more than `MAX_DEATHS` of its processes died within ten minutes and fewer documents than that were
    finished; whether it was paused. (A person who kills workers again and again lets more documents finish.)"""
    event = ShardEvent
    lately = (event.job_id == job_id, event.at > db_time(-WITHIN_S))
    gone = select(func.count(distinct(event.worker_id))).where(*lately, event.event.in_(WORKER_GONE))
    died = select(func.count()).select_from(event).where(*lately, event.event == SANDBOX_DIED)
    deaths = connection.execute(gone).scalar_one() + connection.execute(died).scalar_one()
    if deaths <= MAX_DEATHS:
        return False
    documents = func.sum(event.documents)
    recorded = connection.execute(select(documents).where(*lately, event.event == "recorded")).scalar_one()
    quarantined = connection.execute(select(documents).where(*lately, event.event == QUARANTINED)).scalar_one()
    done = (recorded or 0) - (quarantined or 0)
    if deaths <= done:
        return False
    is_running = (Job.id == job_id, Job.state == JobState.RUNNING, ~Job.paused)
    model = connection.execute(select(Job.model).where(Job.id == job_id)).scalar_one()
    reason = (
        f"{deaths} worker processes died within {WITHIN_S / 60:.0f} minutes and finished {done} documents; "
        f"{how_to_verify(job_id, model)}"
    )
    paused = connection.execute(update(Job).where(*is_running).values(paused_values(reason)))
    return bool(paused.rowcount)
