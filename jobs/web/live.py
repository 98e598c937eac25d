"""Counters that change while somebody looks: server-sent events, a few numbers every two seconds."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from jobs import formatting
from jobs.errors import KvjobsError
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, list_jobs
from jobs.store.schema.states import JobState

EVERY_S = 2.0
MAX_JOBS = 50  # of which counters are sent; more do not fit on a page

router = APIRouter()


@router.get("/events", response_class=EventSourceResponse)
async def events(request: Request) -> AsyncIterator[ServerSentEvent]:
    """The counters of the jobs that run, until the page is closed."""
    while not await request.is_disconnected():
        try:
            counters = await run_in_threadpool(_counters, request.app.state.database)
        except KvjobsError:
            counters = {}  # the database does not answer: the page keeps what it shows
        yield ServerSentEvent(data=counters, event="counters")
        await asyncio.sleep(EVERY_S)


def _counters(database: Database) -> dict[str, Any]:
    """Texts by the `data-live` attribute of the elements that show them, and shares for bars."""
    with database.reading() as connection:
        running = list_jobs(connection, states=[JobState.RUNNING, JobState.INGESTING], limit=MAX_JOBS)
    return {f"job-{job.job_id}": _of_job(job) for job in running}


def _of_job(job: JobSummary) -> dict[str, Any]:
    return {
        "share": job.share_done,
        "done": formatting.percent(job.share_done),
        "ended": formatting.count(job.ended_documents),
        "left": formatting.duration(job.eta_s),
        "unsuccessful": formatting.count(job.unsuccessful),
    }
