"""Counters that change while somebody looks: server-sent events, a few numbers every two seconds."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from jobs import formatting
from jobs.errors import KvjobsError
from jobs.store.database import Database
from jobs.store.report.job_summary import LARGEST_ID, JobSummary, find_job, list_jobs
from jobs.store.schema.states import JobState
from jobs.web.job_page.header import time_left

EVERY_S = 2.0
MAX_JOBS = 50  # of which counters are sent; more do not fit on a page

router = APIRouter()


@router.get("/events", response_class=EventSourceResponse)
async def events(
    request: Request, job: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None
) -> AsyncIterator[ServerSentEvent]:
    """The counters of the jobs that run and of the newest, or of one job, until the page is closed."""
    while not await request.is_disconnected():
        try:
            counters = await run_in_threadpool(_counters, request.app.state.database, job)
        except KvjobsError:
            counters = {}  # the database does not answer: the page keeps what it shows
        yield ServerSentEvent(data=counters, event="counters")
        await asyncio.sleep(EVERY_S)


def _counters(database: Database, job_id: int | None) -> dict[str, Any]:
    """Texts by the `data-live` attribute of the elements that show them, and shares for bars."""
    with database.reading() as connection:
        if job_id is None:
            open_jobs = list_jobs(connection, states=[JobState.RUNNING, JobState.INGESTING], limit=MAX_JOBS)
            found = [*open_jobs, *list_jobs(connection, limit=MAX_JOBS)]  # the newest too: they may just have ended
        else:
            found = [find_job(connection, str(job_id))]
    return {f"job-{job.job_id}": _of_job(job) for job in found}


def _of_job(job: JobSummary) -> dict[str, Any]:
    return {
        "share": job.share_done,
        "done": formatting.percent(job.share_done),
        "ended": formatting.count(job.ended_documents),
        "left": formatting.duration(job.eta_s),
        "time_left": time_left(job),
        "elapsed": formatting.duration(job.elapsed_s),
        "succeeded": formatting.count(job.succeeded),
        "waiting": formatting.count(job.waiting),
        "unsuccessful": formatting.count(job.unsuccessful),
        "tokens": formatting.count(job.tokens),
        "tokens_per_s": f"{job.tokens_per_s:,.0f}" if job.tokens_per_s else formatting.NOTHING,
        "state": job.shown_state,
    }
