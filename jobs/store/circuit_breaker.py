"""The circuit breaker: under a bad model processes die one after the other, and no document is to blame."""

from sqlalchemy import Connection, distinct, func, select, update

from jobs.store.schema.clock import db_time
from jobs.store.schema.states import JobState
from jobs.store.schema.tables import Job, ShardEvent

MAX_DEATHS = 20
WITHIN_S = 600.0

PROCESS_GONE = ("lost", "expired")  # a worker with everything that it held
SANDBOX_DIED = "died"  # a process that was made for one suspect batch
QUARANTINED = "quarantined"


def pause_after_deaths(connection: Connection, job_id: int) -> bool:
    """Pause a job under which more than `MAX_DEATHS` processes died within ten minutes, if they did not even finish
    as many documents; whether it was. (Where somebody kills workers all day, much more is finished in between.)"""
    event = ShardEvent
    lately = (event.job_id == job_id, event.at > db_time(-WITHIN_S))
    gone = select(func.count(distinct(event.worker_id))).where(*lately, event.event.in_(PROCESS_GONE))
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
    paused = connection.execute(
        update(Job)
        .where(Job.id == job_id, Job.state == JobState.RUNNING, ~Job.paused)
        .values(
            paused=True,
            reason=f"{deaths} worker processes died within {WITHIN_S / 60:.0f} minutes and finished {done} documents; "
            f"look at the model and at kvjobs show {job_id}, then: kvjobs resume {job_id}",
        )
    )
    return bool(paused.rowcount)
