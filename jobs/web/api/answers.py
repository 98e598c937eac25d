"""Answers of the API: JSON as the commands print it, and a job."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from jobs.store.report.live_job import find_live_job
from jobs.text.json_text import to_json


class Json(Response):
    """A value as JSON on one line."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content) + b"\n"


def read_job(request: Request, reference: str) -> dict[str, Any]:
    """The job with this number or name, or the newest for "last". Raises NotFoundError."""
    state = request.app.state
    with state.database.reading() as connection:
        return find_live_job(connection, reference, state.settings.lease_s).as_object()
