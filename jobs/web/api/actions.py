"""POST /api/jobs/{job}/actions/{action}: pause, resume, cancel, retry, priority; logged with who asked."""

from anyio import to_thread
from fastapi import APIRouter, Request

from jobs.control.actions import Action, Performed, perform
from jobs.errors import NotFoundError, SpecError, meant
from jobs.queues import read_priority
from jobs.store.report.job_summary import find_job
from jobs.tasks.option import Option
from jobs.web.api.answers import Json, read_job
from jobs.web.api.openapi import described
from jobs.web.api.query import read_body, read_query
from jobs.web.api.schemas import ACTED, ACTION
from jobs.web.pages.actions import refuse_read_only
from jobs.web.visitors import require_own

MOST_REASON = 1000  # characters

OF_ACTION = {
    "reason": Option("Why; kept with the job and in its log.", name="reason"),
    "priority": Option("The new priority: low, normal, high or a number.", name="priority", parse=read_priority),
}

router = APIRouter()


@router.post("/api/jobs/{job}/actions/{action}", **described("Act on a job", body=ACTION, answer=ACTED))
async def act(request: Request, job: str, action: str) -> Json:
    refuse_read_only(request)
    read_query(request, {})
    if action not in [*Action]:
        raise NotFoundError(f"there is no action {action!r}{meant(action, Action)}; there are {', '.join(Action)}")
    given = await read_body(request, OF_ACTION)
    performed = await to_thread.run_sync(
        _perform, request, job, Action(action), given.get("reason"), given.get("priority")
    )
    found = await to_thread.run_sync(read_job, request, str(performed.after.job_id))
    return Json({"job": found, "documents": performed.documents})


def _perform(request: Request, job: str, action: Action, reason: str | None, priority: int | None) -> Performed:
    database = request.app.state.database
    with database.reading() as connection:
        found = find_job(connection, job)
    visitor = require_own(request, found)
    if action is Action.PRIORITY and priority is None:
        raise SpecError('the action priority sets one; give it in the body: {"priority": "high"}')
    if reason is not None and (len(reason) > MOST_REASON or "\0" in reason):
        raise SpecError(f"the reason is too long, or has a NUL in it; give at most {MOST_REASON} characters")
    reason = (reason or "").strip() or None
    return perform(database, str(found.job_id), action, visitor.actor, reason=reason, priority=priority)
