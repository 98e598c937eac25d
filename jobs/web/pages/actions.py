"""Actions on a job: a page that asks for confirmation, and the form that performs them. POST alone changes anything."""

import ipaddress
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from jobs.control.actions import Action, actions_of, perform
from jobs.errors import SpecError
from jobs.formatting import counted
from jobs.store.report.action_list import list_actions
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.live_job import find_live_job
from jobs.web.access import require_own_form
from jobs.web.parameters import JobId
from jobs.web.rendering import add_page, render
from jobs.web.store_access import Reading, SettingsOfApp

LOWEST, HIGHEST = -1000, 1000  # priorities that the form offers; the command line takes any

router = APIRouter()


@router.get("/jobs/{job_id:int}/actions/{action}")
def confirm(request: Request, connection: Reading, settings: SettingsOfApp, job_id: JobId, action: Action) -> Response:
    """Say what the action would do, and ask."""
    refuse_read_only(request)
    job = find_live_job(connection, str(job_id), settings.lease_s)
    if action not in actions_of(job):
        raise SpecError(f"job {job.label} is {job.shown_state}, so there is nothing to {action.value}")
    return render(
        request, "action.html", {"job": job, "action": action.value, "consequence": _consequence(job, action)}
    )


@router.post("/jobs/{job_id:int}/actions/{action}")
def act(
    request: Request,
    job_id: JobId,
    action: Action,
    form_token: Annotated[str, Form()] = "",
    reason: Annotated[str, Form(max_length=1000)] = "",
    priority: Annotated[int | None, Form(ge=LOWEST, le=HIGHEST)] = None,
) -> Response:
    """Perform it, and go back to the page of the job."""
    number = perform_form(request, form_token, action, reason, priority)(job_id)
    return RedirectResponse(f"/jobs/{job_id}?done={number}", 303)


def perform_form(
    request: Request, form_token: str, action: Action, reason: str, priority: int | None
) -> Callable[[int], int]:
    """What performs the action of a form on a job; it returns the action's number in the log. Refuses a form that is
    not this dashboard's own, or that lacks what the action needs."""
    require_own_form(request, form_token)
    refuse_read_only(request)
    if action is Action.PRIORITY and priority is None:
        raise SpecError("give the new priority, a whole number")
    database, actor = request.app.state.database, visitor(request)
    why = reason.strip() or None
    return lambda job_id: perform(database, str(job_id), action, actor, reason=why, priority=priority).number


def actions(connection: Reading, settings: SettingsOfApp, job_id: JobId) -> dict[str, Any]:
    """What was done to a job, newest first."""
    job = find_live_job(connection, str(job_id), settings.lease_s)
    return {"job": job, "actions": list_actions(connection, job_id)}


def _consequence(job: JobSummary, action: Action) -> str:
    """What the action does, in a sentence with the numbers of this job."""
    match action:
        case Action.PAUSE:
            return "Workers finish their batches of it, and take no more of it until it is resumed."
        case Action.RESUME:
            return f"Workers go on with its {counted(job.waiting, 'waiting document')}."
        case Action.CANCEL:
            kept = counted(job.succeeded, "result")
            return f"Its {counted(job.waiting, 'waiting document')} will not be processed; {kept} stay."
        case Action.RETRY:
            again = ", ".join(job.counts.words("failed", "quarantined", "cancelled"))
            return f"Documents that are processed again: {again or 'none'}. Results stay."
        case Action.PRIORITY:
            return f"Its priority is {job.priority}. Jobs with a higher one go first; low is -10, high is 10."


def visitor(request: Request) -> str:
    """Who asks, for the log: visitors have one token together, so their address is all that is known."""
    host = request.client.host if request.client else "unknown"
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    return "dashboard on this machine" if is_here else f"dashboard, from {host}"


def refuse_read_only(request: Request) -> None:
    if request.app.state.options.read_only:
        raise SpecError("this dashboard is read-only")


add_page(router, "/jobs/{job_id:int}/actions", "actions.html", actions)
