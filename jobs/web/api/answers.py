"""Answers of the API: JSON as the commands print it, and a job as an object."""

import json
from typing import Any

from fastapi import Request
from starlette.responses import Response

from jobs.store.report.live_job import LiveJob, find_live_job
from jobs.text.json_text import to_json


class Json(Response):
    """A value as JSON on one line."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content) + b"\n"


def job_object(job: LiveJob) -> dict[str, Any]:
    """A job as `kvjobs ls --json` prints it, and how its corpus was read."""
    return job.as_row() | {"reading": json.loads(job.reading) if job.reading else None}


def read_job(request: Request, reference: str) -> dict[str, Any]:
    """The job with this number or name, or the newest for "last". Raises NotFoundError."""
    state = request.app.state
    with state.database.reading() as connection:
        return job_object(find_live_job(connection, reference, state.settings.lease_s))
