"""When to show a page anew: server-sent events, a word every two seconds that changes with what the page shows.

A page that is shown anew is read from one snapshot as a whole (`static/live.js`), so all its figures are of one moment.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from jobs.errors import KvjobsError
from jobs.store.database import Database
from jobs.store.report.job_summary import LARGEST_ID, JobSummary, find_chain, find_job, list_jobs
from jobs.store.report.live_job import live_jobs
from jobs.store.schema.states import JobState

EVERY_S = 2.0
MAX_JOBS = 50  # open jobs, and newest jobs, whose changes are noticed; a page shows no more
AT_LEAST_EVERY_S = 10  # a job that runs is shown anew, since its time passes

router = APIRouter()


@router.get("/events", response_class=EventSourceResponse)
async def events(
    request: Request, job: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None
) -> AsyncIterator[ServerSentEvent]:
    """The stamp of one job, or of the list of jobs, until the page is closed."""
    state = request.app.state
    while not await request.is_disconnected():
        try:
            stamp = await run_in_threadpool(_read_stamp, state.database, state.settings.lease_s, job)
        except KvjobsError:
            pass  # the database does not answer: the page keeps what it shows
        else:
            yield ServerSentEvent(data=stamp, event="stamp")
        await asyncio.sleep(EVERY_S)


def list_stamp(connection: Connection, silence_s: float) -> str:
    """The stamp of the open and the newest jobs."""
    open_jobs = list_jobs(connection, states=[JobState.RUNNING, JobState.INGESTING], limit=MAX_JOBS)
    return stamp_of(connection, [*open_jobs, *list_jobs(connection, limit=MAX_JOBS)], silence_s)


def stamp_of(connection: Connection, jobs: Sequence[JobSummary], silence_s: float) -> str:
    """A digest of everything that a page shows of these jobs."""
    shown = [_shown(job.as_row(), job.shown_state) for job in live_jobs(connection, jobs, silence_s)]
    return hashlib.sha256(repr(shown).encode()).hexdigest()[:16]


def _read_stamp(database: Database, silence_s: float, job_id: int | None) -> str:
    with database.reading() as connection:
        if job_id is None:
            return list_stamp(connection, silence_s)
        return stamp_of(connection, find_chain(connection, find_job(connection, str(job_id))), silence_s)


PASSING = ("read_at", "elapsed_s", "tokens_per_s", "recent_tokens_per_s", "pace", "eta_s")


def _shown(row: dict[str, Any], state: str) -> list[Any]:
    moment = int(row["read_at"].timestamp()) // AT_LEAST_EVERY_S if state == JobState.RUNNING else None
    return [moment, *(value for name, value in row.items() if name not in PASSING)]
