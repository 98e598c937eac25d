"""GET /api/models: the models that a job can name. GET /api/options: the options of each task, and of results."""

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, Request

from jobs.operations.results import OF_RESULTS
from jobs.submission.job_options import OF_EVERY_JOB
from jobs.tasks.kinds import KINDS
from jobs.tasks.option import Option
from jobs.web.api.answers import Json
from jobs.web.api.openapi import described, schema_of
from jobs.web.api.query import read_query
from jobs.web.api.schemas import MODELS, OPTIONS
from jobs.worker_port import worker_port

# Not where it lies on this machine.
SHOWN = ("name", "kind", "tasks", "precision", "architecture", "is_bundled", "num_bytes", "problem")

router = APIRouter()


@router.get("/api/models", **described("The models that a job can name", answer=MODELS))
def list_models(request: Request) -> Json:
    read_query(request, {})
    found = worker_port().installed_models(request.app.state.settings.models_dir)
    return Json({"models": [{name: getattr(model, name) for name in SHOWN} for model in found]})


@router.get("/api/options", **described("The options of each task, and of results", answer=OPTIONS))
def list_options(request: Request) -> Json:
    read_query(request, {})
    tasks = [
        {
            "name": kind.name,
            "default_model": kind.default_model,
            "options": _described([*OF_EVERY_JOB.values(), *kind.offered.values()]),
        }
        for kind in KINDS.values()
        if kind.has_model
    ]
    return Json({"tasks": tasks, "results": _described(OF_RESULTS.values())})


def _described(options: Iterable[Option]) -> list[dict[str, Any]]:
    return [
        {"name": option.name, "help": option.help, "schema": schema_of(option)}
        for option in options
        if not option.is_file
    ]
