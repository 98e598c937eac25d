"""The dashboard as an ASGI application: its pages, and the guards that every request passes.

A request passes, from outside to inside: headers and sizes (`guards`), the host name, the token (`access`), the site
that sent it (`same_origin`), the page.
"""

import re
from dataclasses import dataclass
from importlib import resources

from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.staticfiles import StaticFiles

from jobs import __version__
from jobs.operations.open_jobs import OpenJobs
from jobs.operations.plan import Admissions
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.web import access, live, rendering
from jobs.web.api import routes as api
from jobs.web.guards import Guards, LimitOfRoute, upload_limit
from jobs.web.known_tokens import KnownTokens
from jobs.web.openai import batches
from jobs.web.openai import files as uploaded_files
from jobs.web.openai import models as listed_models
from jobs.web.openai.requests import handle_api_errors
from jobs.web.pages import (
    actions,
    compare,
    document,
    documents,
    export,
    files,
    job,
    jobs,
    models,
    monitoring,
    new_job,
    overview,
    query,
    schema,
    workers,
)
from jobs.web.same_origin import SameOrigin

PAGES = (
    *(overview, jobs, new_job, job, compare, documents, document, export, files, actions, workers),
    *(models, query, schema, monitoring),
)
OPENAI_API = (uploaded_files, batches, listed_models)
UPLOADS = re.compile("/v1/files")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the dashboard: who may see it, and whether it may change jobs."""

    hosts: tuple[str, ...]  # the names it may be asked by: a page of another name cannot use it (DNS rebinding)
    token: str | None = None  # of the settings: who knows it is an operator
    always_token: bool = False  # also where no token exists: then nobody may look. (False: everybody may, as operator)
    read_only: bool = False  # no page changes a job
    has_api: bool = True  # /api and /v1 are served


def create_app(database: Database, settings: Settings, options: Options) -> FastAPI:
    """The application over one database. It reads `database` alone, so it may be restarted at any time."""
    app = FastAPI(title="kvjobs", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.database = database
    app.state.settings = settings
    app.state.options = options
    app.state.form_token = access.new_form_token()
    app.state.tokens = KnownTokens(database, options.token, always=options.always_token)
    app.state.failures = access.Failures()
    app.mount("/static", StaticFiles(directory=str(resources.files("jobs.web") / "static")), name="static")
    # The routes themselves, not `include_router`, which builds each anew at the first request: that took 0.1 s.
    app.router.routes.extend(route for part in (*PAGES, live, access) for route in part.router.routes)
    limits: list[LimitOfRoute] = [("POST", re.compile("/jobs/new"), upload_limit(settings.max_upload_bytes))]
    app.state.admissions = Admissions()
    if options.has_api:
        app.state.open_jobs = OpenJobs(database, settings)
        app.router.routes.extend(api.api_routes())
        app.router.routes.extend(route for part in OPENAI_API for route in part.router.routes)
        limits += api.body_limits(settings)
        limits.append(("POST", UPLOADS, upload_limit(settings.max_upload_bytes)))
    rendering.handle_errors(app)
    handle_api_errors(app)
    app.add_middleware(SameOrigin)
    app.add_middleware(access.TokenRequired, tokens=app.state.tokens, failures=app.state.failures)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(options.hosts), www_redirect=False)
    app.add_middleware(Guards, limits=limits)
    return app
