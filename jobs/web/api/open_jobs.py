"""Documents of open jobs: POST /api/jobs/{job}/documents appends them, /outcomes says what came of some."""

from collections.abc import Sequence
from typing import Any

import orjson
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request

from jobs.errors import SpecError
from jobs.store.report.job_summary import find_job
from jobs.tasks.option import Option
from jobs.web.api.answers import Json
from jobs.web.api.openapi import described
from jobs.web.api.query import read_body, read_query
from jobs.web.api.schemas import APPENDED, DOCUMENTS, IDS, OUTCOMES
from jobs.web.pages.actions import refuse_read_only
from jobs.web.uploads import refuse_too_long
from jobs.web.visitors import Visitor, require_own

MOST_DOCUMENTS = 1 << 25  # bytes of a request: they are appended in one transaction
MOST_IDS = 10_000
OF_OUTCOMES = {"ids": Option("Ids of documents.", name="ids", type=tuple, default=())}

router = APIRouter()

_appending, _reading = CapacityLimiter(4), CapacityLimiter(4)  # threads


@router.post(
    "/api/jobs/{job}/documents", **described("Append documents to an open job", body=DOCUMENTS, answer=APPENDED)
)
async def append(request: Request, job: str) -> Json:
    refuse_read_only(request)
    read_query(request, {})
    job_id, visitor = await to_thread.run_sync(_own_job, request, job, limiter=_reading)
    body = await request.body()
    refuse_too_long(len(body), visitor.max_bytes)
    lines = [line for line in body.split(b"\n") if line.strip()]
    found = await to_thread.run_sync(request.app.state.open_jobs.append, job_id, lines, limiter=_appending)
    return Json({"documents": found})


@router.post(
    "/api/jobs/{job}/outcomes",
    **described(
        "What came of documents; null: it waits; an id that the job lacks is left out", body=IDS, answer=OUTCOMES
    ),
)
async def outcomes(request: Request, job: str) -> Json:
    read_query(request, {})
    ids = (await read_body(request, OF_OUTCOMES)).get("ids", ())
    if len(ids) > MOST_IDS:
        raise SpecError(f"there are {len(ids):,} ids; send at most {MOST_IDS:,}")
    found = await to_thread.run_sync(_outcomes, request, job, ids, limiter=_reading)
    return Json({"outcomes": found})


def _own_job(request: Request, job: str) -> tuple[int, Visitor]:
    with request.app.state.database.reading() as connection:
        found = find_job(connection, job)
    return found.job_id, require_own(request, found)


def _outcomes(request: Request, job: str, ids: Sequence[str]) -> dict[str, Any]:
    state = request.app.state
    with state.database.reading() as connection:
        job_id = find_job(connection, job).job_id
    lines = state.open_jobs.outcomes(job_id, ids)
    return {name: None if _waits(line) else orjson.Fragment(line.strip()) for name, line in lines.items()}


def _waits(line: bytes) -> bool:
    return bool(orjson.loads(line)["status"] == "waiting")
