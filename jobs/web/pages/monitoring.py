"""/metrics for Prometheus, and /healthz, which proves progress: not only that somebody answers."""

from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Request
from starlette.responses import PlainTextResponse, Response

from jobs.errors import KvjobsError
from jobs.store.database import Database
from jobs.store.report.metrics import read_metrics
from jobs.store.report.waiting_work import check_progress
from jobs.web.metric_families import CONTENT_TYPE, exposition, families
from jobs.web.parameters import Reading, SettingsOfApp
from jobs.web.rendering import JsonResponse

MAX_WAIT_S = 120.0
A_YEAR_S = 366 * 86_400
# /healthz has threads of its own: pages that take long do not keep it waiting, and many who ask do not keep pages.
_threads = anyio.CapacityLimiter(2)

router = APIRouter()


@router.get("/metrics")
def metrics(connection: Reading, settings: SettingsOfApp) -> Response:
    """One scrape."""
    read = read_metrics(connection, settings.lease_s)
    return PlainTextResponse(exposition(families(read)), media_type=CONTENT_TYPE)


@router.get("/healthz")
async def health(
    request: Request, max_wait: Annotated[float, Query(alias="max-wait", gt=0, le=A_YEAR_S)] = MAX_WAIT_S
) -> Response:
    """200 while the database answers and work that waits is taken, else 503 with the reason. Whoever reaches the
    address may ask, so the answer names neither the database nor a job."""
    return await anyio.to_thread.run_sync(_health, request.app.state.database, max_wait, limiter=_threads)


def _health(database: Database, max_wait: float) -> Response:
    try:
        with database.reading() as connection:
            progress = check_progress(connection, max_wait)
    except KvjobsError:
        return JsonResponse({"status": "unavailable", "sentence": "The database does not answer."}, 503)
    status = "stuck" if progress.is_stuck else "ok"
    return JsonResponse({"status": status, "sentence": progress.sentence}, 503 if progress.is_stuck else 200)
