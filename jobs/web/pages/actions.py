"""Actions on a job, on those that are chosen on the list (/jobs/actions), or on a worker (/workers/N/actions): a page
that asks for confirmation, and the form that performs them. POST alone changes anything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Path, Query, Request
from sqlalchemy import Connection
from starlette.responses import RedirectResponse, Response

from jobs.choices import Role, state_in_words
from jobs.control.actions import (
    DRAINING,
    PAUSING,
    Action,
    WorkerAction,
    actions_of,
    actions_of_worker,
    perform,
    perform_on_worker,
)
from jobs.errors import KvjobsError, NotAllowedError, NotFoundError, SpecError
from jobs.store.database import Database
from jobs.store.jobs import log_action, log_outcome
from jobs.store.report.action_list import list_actions
from jobs.store.report.job_lines import JobLine, lines_of
from jobs.store.report.job_summary import LARGEST_ID, JobSummary, find_chain, find_job
from jobs.store.report.live_job import find_live_job, live_jobs
from jobs.store.report.worker_list import find_worker
from jobs.store.webhooks import send_again
from jobs.text.formatting import counted
from jobs.web.access import require_own_form
from jobs.web.parameters import JobId, Reading, SettingsOfApp
from jobs.web.rendering import add_page, render
from jobs.web.visitors import Visitor, require, require_own, visitor_of

LOWEST, HIGHEST = -1000, 1000  # priorities that the form offers; the command line takes any

router = APIRouter()


@router.get("/jobs/{job_id:int}/actions/{action}")
def confirm(request: Request, connection: Reading, settings: SettingsOfApp, job_id: JobId, action: Action) -> Response:
    """Say what the action would do, and ask."""
    refuse_read_only(request)
    job = find_live_job(connection, str(job_id), settings.lease_s)
    require_own(request, job)
    if action not in actions_of(job):
        raise SpecError(f"job {job.label} is {job.shown_state}, so there is nothing to {action.value}")
    return render(
        request, "action.html", {"job": job, "action": action.value, "consequence": _consequence(job, action)}
    )


@router.post("/jobs/{job_id:int}/actions/{action}")
def act(
    request: Request,
    connection: Reading,
    job_id: JobId,
    action: Action,
    form_token: Annotated[str, Form()] = "",
    reason: Annotated[str, Form(max_length=1000)] = "",
    priority: Annotated[int | None, Form(ge=LOWEST, le=HIGHEST)] = None,
) -> Response:
    """Perform it, and go back to the page of the job."""
    require_own(request, find_job(connection, str(job_id)))
    number = perform_form(request, form_token, action, reason, priority)(job_id)
    return RedirectResponse(f"/jobs/{job_id}?done={number}", 303)


@router.post("/jobs/{job_id:int}/webhooks/{number:int}/again")
def send_webhook_again(
    request: Request,
    connection: Reading,
    job_id: JobId,
    number: Annotated[int, Path(ge=1, le=LARGEST_ID)],
    form_token: Annotated[str, Form()] = "",
) -> Response:
    """Let a webhook be sent once more, and go back to the page of the job."""
    actor = require_own(request, find_job(connection, str(job_id))).actor
    require_own_form(request, form_token)
    refuse_read_only(request)
    database: Database = request.app.state.database
    send_again(database, job_id, number)
    action = log_action(database, job_id, "notify", actor, f"webhook {number}")
    log_outcome(database, action, "it is sent again within seconds")
    return RedirectResponse(f"/jobs/{job_id}?done={action}#webhooks", 303)


def perform_form(
    request: Request, form_token: str, action: Action, reason: str, priority: int | None
) -> Callable[[int], int]:
    """What performs the action of a form on a job; it returns the action's number in the log. Refuses a form that is
    not this dashboard's own, or that lacks what the action needs."""
    require_own_form(request, form_token)
    refuse_read_only(request)
    if action is Action.PRIORITY and priority is None:
        raise SpecError("give the new priority, a whole number")
    database, actor = request.app.state.database, require(request, Role.PRODUCER).actor
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
        case Action.CLOSE:
            end = (
                f"with its {counted(job.waiting, 'waiting document')}" if job.waiting else "at once: no document waits"
            )
            return f"No document can be appended any more, and it is not opened again. It ends {end}."
        case Action.CANCEL:
            kept = counted(job.succeeded, "result")
            return f"Its {counted(job.waiting, 'waiting document')} will not be processed; {kept} stay."
        case Action.RETRY:
            again = ", ".join(job.counts.words("failed", "quarantined", "cancelled"))
            return f"Documents that are processed again: {again or 'none'}. Results stay."
        case Action.PRIORITY:
            return f"Its priority is {job.priority}. Jobs with a higher one go first; low is -10, high is 10."


def refuse_read_only(request: Request) -> None:
    if request.app.state.options.read_only:
        raise NotAllowedError("this dashboard is read-only")


add_page(router, "/jobs/{job_id:int}/actions", "actions.html", actions)


MOST_JOBS = 100

JobIds = Annotated[list[Annotated[int, Query(ge=1, le=LARGEST_ID)]] | None, Query(max_length=MOST_JOBS)]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A job, or a chain, and whether its state allows the action."""

    line: JobLine
    why_not: str | None


@router.get("/jobs/actions")
def confirm_all(
    request: Request, connection: Reading, settings: SettingsOfApp, action: Action, job: JobIds = None
) -> Response:
    """Say on which jobs it would act, and ask."""
    refuse_read_only(request)
    chosen = _chosen(connection, job or (), action, settings.lease_s, require(request, Role.PRODUCER))
    return render(request, "bulk_action.html", {"action": action.value, "chosen": chosen})


@router.post("/jobs/actions")
def act_on_all(
    request: Request,
    connection: Reading,
    settings: SettingsOfApp,
    action: Annotated[Action, Form()],
    job: Annotated[list[Annotated[int, Form(ge=1, le=LARGEST_ID)]], Form(max_length=MOST_JOBS)],
    form_token: Annotated[str, Form()] = "",
    reason: Annotated[str, Form(max_length=1000)] = "",
    priority: Annotated[int | None, Form(ge=LOWEST, le=HIGHEST)] = None,
) -> Response:
    """Perform it on each job that allows it, and go back to the list, which says what came of it. A job whose state has
    changed meanwhile stays as it is, and its log says so."""
    perform_on = perform_form(request, form_token, action, reason, priority)
    chosen = _chosen(connection, job, action, settings.lease_s, visitor_of(request))
    allowed = [choice.line.job_id for choice in chosen if choice.why_not is None]
    numbers = []
    for job_id in allowed:
        try:
            numbers.append(perform_on(job_id))
        except KvjobsError:
            continue
    return RedirectResponse(f"/jobs?{urlencode({'acted': numbers}, doseq=True)}", 303)


def _chosen(
    connection: Connection, job_ids: Sequence[int], action: Action, silence_s: float, visitor: Visitor
) -> list[Chosen]:
    """The lines of these jobs: of a chain one, whichever of its stages are named. Raises SpecError where none is."""
    if not job_ids:
        raise SpecError(f"choose the jobs to {action.value}: tick them on the list")
    jobs = {
        stage.job_id: stage for job_id in job_ids for stage in find_chain(connection, find_job(connection, str(job_id)))
    }
    lines = lines_of(live_jobs(connection, jobs.values(), silence_s))
    return [Chosen(line, _why_not(line, action, visitor)) for line in reversed(lines)]


def _why_not(line: JobLine, action: Action, visitor: Visitor) -> str | None:
    if not visitor.may_act_on(line.first):
        return f"it belongs to {line.first.owner or 'nobody'}"
    if any(action in actions_of(stage) for stage in line.stages):
        return None
    if action is Action.CLOSE and not line.first.has_ended:
        return "it takes no documents"
    return f"it is {state_in_words(line.shown_state)}"


CONSEQUENCES = {
    WorkerAction.PAUSE: f"{PAUSING[0].upper()}{PAUSING[1:]}, until it is resumed.",
    WorkerAction.RESUME: "It takes shards again.",
    WorkerAction.DRAIN: f"{DRAINING[0].upper()}{DRAINING[1:]}. To have it back, start it where it ran.",
}
WorkerId = Annotated[int, Path(ge=1, le=LARGEST_ID)]


@router.get("/workers/{worker_id:int}/actions/{action}")
def confirm_of_worker(
    request: Request, connection: Reading, settings: SettingsOfApp, worker_id: WorkerId, action: WorkerAction
) -> Response:
    """Say what follows, and ask."""
    refuse_read_only(request)
    require(request, Role.OPERATOR)
    worker = find_worker(connection, worker_id, settings.lease_s)
    if worker is None:
        raise NotFoundError(f"there is no worker {worker_id}")
    if action not in actions_of_worker(worker):
        raise SpecError(f"worker {worker_id} is {worker.state}, so it cannot be asked to {action.value}")
    shown = {"worker": worker, "action": action.value, "consequence": CONSEQUENCES[action]}
    return render(request, "worker_action.html", shown | {"heartbeat_s": settings.heartbeat_s})


@router.post("/workers/{worker_id:int}/actions/{action}")
def act_on_worker(
    request: Request,
    settings: SettingsOfApp,
    worker_id: WorkerId,
    action: WorkerAction,
    form_token: Annotated[str, Form()] = "",
) -> Response:
    """Ask it, and go back to the list of workers."""
    require_own_form(request, form_token)
    refuse_read_only(request)
    actor = require(request, Role.OPERATOR).actor
    perform_on_worker(request.app.state.database, worker_id, action, actor, settings.lease_s)
    return RedirectResponse(f"/workers?asked={worker_id}#worker-{worker_id}", 303)
