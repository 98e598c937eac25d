"""GET /api/jobs/{job}/events: server-sent events, a job whenever it changes, the last one when it has ended.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from jobs.errors import TransientError
from jobs.store.schema.states import ENDED_STATES
from jobs.text.json_text import to_json
from jobs.web.api.answers import read_job
from jobs.web.api.openapi import described
from jobs.web.api.query import read_query
from jobs.web.live import PASSING
from jobs.web.streaming import makers

EVERY_S = 1.0
QUIET_S = 15.0  # after which a comment keeps the connection alive

router = APIRouter()


@router.get(
    "/api/jobs/{job}/events",
    **described(
        "A job whenever it changes: events `job`, with the job as data, until it has ended",
        answer={"type": "string"},
        media_types=["text/event-stream"],
    ),
)
async def events(request: Request, job: str) -> StreamingResponse:
    read_query(request, {})
    first = await to_thread.run_sync(read_job, request, job, limiter=makers)
    return StreamingResponse(_events(request, first), media_type="text/event-stream")


async def _events(request: Request, job: dict[str, Any]) -> AsyncIterator[bytes]:
    reference, shown, quiet_s = str(job["job_id"]), None, 0.0
    while True:
        if (now := _lasting(job)) != shown:
            shown, quiet_s = now, 0.0
            yield b"event: job\ndata: " + to_json(job) + b"\n\n"
        if job["state"] in ENDED_STATES:
            return
        if quiet_s >= QUIET_S:
            quiet_s = 0.0
            yield b": still there\n\n"
        await asyncio.sleep(EVERY_S)
        quiet_s += EVERY_S
        try:
            job = await to_thread.run_sync(read_job, request, reference, limiter=makers)
        except TransientError:
            continue  # the database does not answer: what was sent stays true as far as is known


def _lasting(job: Mapping[str, Any]) -> dict[str, Any]:
    """What does not change by itself as time passes."""
    return {name: value for name, value in job.items() if name not in PASSING}
