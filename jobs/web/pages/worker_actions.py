"""/workers/N/actions: what is asked of a worker: a page that asks for confirmation, and the form that does it."""

from typing import Annotated

from fastapi import APIRouter, Form, Path, Request
from starlette.responses import RedirectResponse, Response

from jobs.control.worker_actions import (
    DRAINING,
    PAUSING,
    WorkerAction,
    actions_of_worker,
    perform_on_worker,
)
from jobs.errors import NotFoundError, SpecError
from jobs.store.report.job_summary import LARGEST_ID
from jobs.store.report.worker_list import find_worker
from jobs.web.access import require_own_form
from jobs.web.pages.actions import refuse_read_only, visitor
from jobs.web.parameters import Reading, SettingsOfApp
from jobs.web.rendering import render

CONSEQUENCES = {
    WorkerAction.PAUSE: f"{PAUSING[0].upper()}{PAUSING[1:]}, until it is resumed.",
    WorkerAction.RESUME: "It takes shards again.",
    WorkerAction.DRAIN: f"{DRAINING[0].upper()}{DRAINING[1:]}. To have it back, start it where it ran.",
}
WorkerId = Annotated[int, Path(ge=1, le=LARGEST_ID)]

router = APIRouter()


@router.get("/workers/{worker_id:int}/actions/{action}")
def confirm(
    request: Request, connection: Reading, settings: SettingsOfApp, worker_id: WorkerId, action: WorkerAction
) -> Response:
    """Say what follows, and ask."""
    refuse_read_only(request)
    worker = find_worker(connection, worker_id, settings.lease_s)
    if worker is None:
        raise NotFoundError(f"there is no worker {worker_id}")
    if action not in actions_of_worker(worker):
        raise SpecError(f"worker {worker_id} is {worker.state}, so it cannot be asked to {action.value}")
    shown = {"worker": worker, "action": action.value, "consequence": CONSEQUENCES[action]}
    return render(request, "worker_action.html", shown | {"heartbeat_s": settings.heartbeat_s})


@router.post("/workers/{worker_id:int}/actions/{action}")
def act(
    request: Request,
    settings: SettingsOfApp,
    worker_id: WorkerId,
    action: WorkerAction,
    form_token: Annotated[str, Form()] = "",
) -> Response:
    """Ask it, and go back to the list of workers."""
    require_own_form(request, form_token)
    refuse_read_only(request)
    perform_on_worker(request.app.state.database, worker_id, action, visitor(request), settings.lease_s)
    return RedirectResponse(f"/workers?asked={worker_id}#worker-{worker_id}", 303)
