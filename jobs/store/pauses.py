"""The columns of a job that is paused or goes on. The time in which it stood still is no time that it took."""

from typing import Any

from sqlalchemy import case, func

from jobs.store.schema.clock import db_time, seconds_between
from jobs.store.schema.tables import Job


def paused_values(reason: str | None) -> dict[str, Any]:
    """Of a job that is paused now; one that is paused already keeps the time since when."""
    since = case((Job.paused, func.coalesce(Job.paused_at, db_time())), else_=db_time())
    return {"paused": True, "reason": reason, "paused_at": since}


def resumed_values() -> dict[str, Any]:
    """Of a job that goes on: after a pause, or where it had ended and is retried."""
    still_since = case((Job.paused, Job.paused_at), else_=Job.finished_at)
    stood_still = func.coalesce(seconds_between(still_since, db_time()), 0.0)
    has_begun = Job.started_at.is_not(None)
    return {
        "paused": False,
        "reason": None,
        "paused_at": None,
        "idle_s": Job.idle_s + case((has_begun & (stood_still > 0), stood_still), else_=0.0),
    }
