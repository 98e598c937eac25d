"""The routes of /api, in the order of its description; and which of them take more than a form."""

import re
from collections.abc import Iterator

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from jobs.settings import Settings
from jobs.terms.glossary import MAX_BYTES
from jobs.web.api import actions, events, files, glossaries, jobs, models, open_jobs, results, submit
from jobs.web.api.answers import Json
from jobs.web.api.openapi import document
from jobs.web.guards import LimitOfRoute, upload_limit
from jobs.web.rendering import render

PARTS = (submit, jobs, results, files, events, open_jobs, actions, models, glossaries)
UPLOADS = ("/api/jobs", "/api/dry-run")

router = APIRouter()


def api_routes() -> Iterator[BaseRoute]:
    """Every route."""
    for part in PARTS:
        yield from part.router.routes
    yield from router.routes


def body_limits(settings: Settings) -> Iterator[LimitOfRoute]:
    """The limits of the bodies that are larger than a form."""
    for path in UPLOADS:
        yield "POST", re.compile(re.escape(path)), upload_limit(settings.max_upload_bytes)
    yield "POST", re.compile("/api/jobs/[^/]+/(documents|outcomes)"), upload_limit(open_jobs.MOST_DOCUMENTS)
    yield "POST", re.compile("/api/glossaries"), upload_limit(MAX_BYTES)


@router.get("/api/openapi.json")
def openapi(_request: Request) -> Json:
    return Json(document(api_routes()))


@router.get("/api/docs")
def docs(request: Request) -> Response:
    """The description as a page, without a script."""
    return render(request, "api.html", {"paths": document(api_routes())["paths"]})
