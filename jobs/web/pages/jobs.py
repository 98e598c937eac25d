"""/jobs: every job, newest first."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from jobs.choices import SHOWN_STATES
from jobs.spec import Task
from jobs.stage import FILTER
from jobs.store.report.job_summary import LARGEST_ID, list_jobs
from jobs.web.pages.overview import OPEN
from jobs.web.rendering import add_page
from jobs.web.store_access import Reading

A_PAGE = 25
State = Literal["", "open", "ingesting", "running", "paused", "cancelling", "done", "cancelled", "failed"]

router = APIRouter()


def jobs(
    connection: Reading,
    state: State = "",
    task: Literal["", "translate", "score", "rerank", "generate", "filter"] = "",
    search: Annotated[str, Query(max_length=200)] = "",
    before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
) -> dict[str, Any]:
    states = OPEN if state == "open" else (state,) if state else ()
    found = list_jobs(connection, states=states, task=task, search=search, before=before, limit=A_PAGE + 1)
    page = found[:A_PAGE]
    return {
        "jobs": page,
        "next_before": page[-1].job_id if len(found) > A_PAGE else None,
        "filter": {"state": state, "task": task, "search": search, "before": before},
        "choices": {"state": ("open", *SHOWN_STATES), "task": (*(task.value for task in Task), FILTER)},
    }


add_page(router, "/jobs", "jobs.html", jobs)
