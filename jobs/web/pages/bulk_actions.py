"""/jobs/actions: an action on the jobs that are chosen on the list: a page that asks, and the form that performs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from sqlalchemy import Connection
from starlette.responses import RedirectResponse, Response

from jobs.choices import state_in_words
from jobs.control.actions import Action, actions_of
from jobs.errors import KvjobsError, SpecError
from jobs.store.report.job_lines import JobLine, lines_of
from jobs.store.report.job_summary import LARGEST_ID, find_chain, find_job
from jobs.store.report.live_job import live_jobs
from jobs.web.pages.actions import HIGHEST, LOWEST, perform_form, refuse_read_only
from jobs.web.rendering import render
from jobs.web.store_access import Reading, SettingsOfApp

MOST_JOBS = 100

JobIds = Annotated[list[Annotated[int, Query(ge=1, le=LARGEST_ID)]] | None, Query(max_length=MOST_JOBS)]

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Chosen:
    """A job, or a chain, and whether its state allows the action."""

    line: JobLine
    why_not: str | None


@router.get("/jobs/actions")
def confirm(
    request: Request, connection: Reading, settings: SettingsOfApp, action: Action, job: JobIds = None
) -> Response:
    """Say on which jobs it would act, and ask."""
    refuse_read_only(request)
    chosen = _chosen(connection, job or (), action, settings.lease_s)
    return render(request, "bulk_action.html", {"action": action.value, "chosen": chosen})


@router.post("/jobs/actions")
def act(
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
    allowed = [one.line.job_id for one in _chosen(connection, job, action, settings.lease_s) if one.why_not is None]
    numbers = []
    for job_id in allowed:
        try:
            numbers.append(perform_on(job_id))
        except KvjobsError:
            continue
    return RedirectResponse(f"/jobs?{urlencode({'acted': numbers}, doseq=True)}", 303)


def _chosen(connection: Connection, job_ids: Sequence[int], action: Action, silence_s: float) -> list[Chosen]:
    """The lines of these jobs: of a chain one, whichever of its stages are named. Raises SpecError where none is."""
    if not job_ids:
        raise SpecError(f"choose the jobs to {action.value}: tick them on the list")
    jobs = {stage.job_id: stage for one in job_ids for stage in find_chain(connection, find_job(connection, str(one)))}
    lines = lines_of(live_jobs(connection, jobs.values(), silence_s))
    return [Chosen(line, _why_not(line, action)) for line in reversed(lines)]


def _why_not(line: JobLine, action: Action) -> str | None:
    if any(action in actions_of(stage) for stage in line.stages):
        return None
    return f"it is {state_in_words(line.shown_state)}"
