"""/v1/models: the models that requests may name."""

from typing import Any

from fastapi import APIRouter, Request

from jobs.web.openai.requests import not_found
from jobs.worker_port import InstalledModel, worker_port

OWNER = "kvjobs"

router = APIRouter(prefix="/v1/models")


@router.get("")
def list_all(request: Request) -> dict[str, Any]:
    """Every model of this machine whose files are complete."""
    return {"object": "list", "data": [model_object(model) for model in _usable(request)]}


@router.get("/{name:path}")
def show(request: Request, name: str) -> dict[str, Any]:
    found = next((model for model in _usable(request) if model.name == name), None)
    if found is None:
        raise not_found("model", name)
    return model_object(found)


def model_object(model: InstalledModel) -> dict[str, Any]:
    """The model as OpenAI's clients read it, and the tasks that it does."""
    created = int(model.path.stat().st_mtime) if model.path.exists() else 0
    return {
        "id": model.name,
        "object": "model",
        "created": created,
        "owned_by": OWNER,
        "tasks": list(model.tasks),
    }


def _usable(request: Request) -> list[InstalledModel]:
    installed = worker_port().installed_models(request.app.state.settings.models_dir)
    return [model for model in installed if model.problem is None]
