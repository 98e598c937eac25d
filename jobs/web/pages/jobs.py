"""/jobs: every job, newest first; a chain is one line, which opens."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from jobs.choices import SHOWN_STATES
from jobs.control.actions import Action
from jobs.store.report.action_list import find_actions
from jobs.store.report.job_lines import list_job_lines
from jobs.store.report.job_summary import LARGEST_ID
from jobs.tasks.kinds import KINDS
from jobs.web.live import list_stamp
from jobs.web.pages.overview import OPEN
from jobs.web.parameters import Reading, SettingsOfApp
from jobs.web.rendering import add_page
from jobs.web.unserved_work import unserved_work

A_PAGE = 25
MOST_ACTIONS = 100  # whose outcome is shown
TaskName = Literal["", *map(str, KINDS)]  # type: ignore[valid-type]  # known when the tasks are
State = Literal["", "open", *SHOWN_STATES]  # type: ignore[valid-type]  # open: it has not ended

router = APIRouter()


def jobs(
    connection: Reading,
    settings: SettingsOfApp,
    state: State = "",
    task: TaskName = "",  # type: ignore[valid-type]  # a type made of the tasks
    search: Annotated[str, Query(max_length=200)] = "",
    before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
    acted: Annotated[list[Annotated[int, Query(ge=1, le=LARGEST_ID)]] | None, Query(max_length=MOST_ACTIONS)] = None,
) -> dict[str, Any]:
    """`acted`: numbers of the actions after which this page is shown."""
    states = OPEN if state == "open" else (state,) if state else ()
    found = list_job_lines(
        connection, settings.lease_s, states=states, task=task, search=search, before=before, limit=A_PAGE + 1
    )
    page = found[:A_PAGE]
    return {
        "jobs": page,
        "next_before": page[-1].job_id if len(found) > A_PAGE else None,
        "filter": {"state": state, "task": task, "search": search, "before": before},
        "choices": {"state": ("open", *SHOWN_STATES), "task": (*map(str, KINDS),)},
        "actions": [action.value for action in Action],
        "acted": find_actions(connection, acted) if acted else [],
        "unserved": unserved_work(connection, settings.lease_s),
        "stamp": list_stamp(connection, settings.lease_s),
    }


add_page(router, "/jobs", "jobs.html", jobs)
