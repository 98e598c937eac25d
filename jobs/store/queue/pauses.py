"""The columns of a job that is paused or resumed. Its pauses are summed, and do not count as time that it took."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import case, func

from jobs.store.schema.clock import db_time, seconds_between
from jobs.store.schema.tables import Job


def paused_values(reason: str | None) -> dict[str, Any]:
    """The columns of a job that is paused now. If it is paused already, `paused_at` stays."""
    since = case((Job.paused, func.coalesce(Job.paused_at, db_time())), else_=db_time())
    return {"paused": True, "reason": reason, "paused_at": since}


def resumed_values() -> dict[str, Any]:
    """The columns of a job that goes on: it is resumed, or it had ended and is retried."""
    still_since = case((Job.paused, Job.paused_at), else_=Job.finished_at)
    stood_still = func.coalesce(seconds_between(still_since, db_time()), 0.0)
    has_begun = Job.started_at.is_not(None)
    return {
        "paused": False,
        "reason": None,
        "paused_at": None,
        "idle_s": Job.idle_s + case((has_begun & (stood_still > 0), stood_still), else_=0.0),
    }


# (columns of a job, a file with some lines of its corpus) -> the command that submits these lines as the job was
# submitted; None if there is no such command.
Trial = Callable[[Mapping[str, Any], str], str | None]


def how_to_try(job_id: int, job: Mapping[str, Any], positions: Sequence[int], trial: Trial | None) -> str:
    """The commands that try a model on the documents that its processes died with, and then resume the job; on its own
    sample where the lines of the documents cannot be taken out of the corpus."""
    form = None if job["reading"] is None else json.loads(job["reading"])["format"]
    file = f"job-{job_id}-suspects.{form}"
    submit = trial(job, file) if trial and positions and form not in (None, "beir") else None
    if submit is None:
        return how_to_verify(job_id, job["model"])
    where = f"position between {min(positions)} and {max(positions)}"
    take_out = f'kvjobs export {job_id} --only waiting --where "{where}" --format original -o {file}'
    return f"to try the model on these alone: {take_out} && {submit}; then: kvjobs resume {job_id}"


def how_to_verify(job_id: int, model: str) -> str:
    """The command that tries a model on its own sample, and the one that resumes the job."""
    return f"to see whether the model works: kvjobs models verify {shlex.quote(model)}; then: kvjobs resume {job_id}"
