"""GET /api/jobs, GET /api/jobs/{job}: jobs as objects."""

from dataclasses import dataclass

from fastapi import APIRouter, Request

from jobs.choices import SHOWN_STATES
from jobs.errors import SpecError, meant
from jobs.number_ranges import EVERY_ID, Whole
from jobs.store.report.live_job import list_live_jobs
from jobs.tasks.option import option, options_of
from jobs.web.api.answers import Json, read_job
from jobs.web.api.openapi import described
from jobs.web.api.query import read_query
from jobs.web.api.schemas import JOB, JOBS

router = APIRouter()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """Which jobs are listed."""

    state: tuple[str, ...] = option((), f"Only jobs in this state: {', '.join(SHOWN_STATES)}; may be repeated.")
    limit: int = option(100, "At most so many jobs.", Whole(1, 1000))
    before: int | None = option(None, "Only jobs with a lower number: the `next` of an earlier answer.", EVERY_ID)

    def __post_init__(self) -> None:
        for state in self.state:
            if state not in SHOWN_STATES:
                near = meant(state, SHOWN_STATES)
                raise SpecError(f"state is {state!r}{near}; it can be {', '.join(SHOWN_STATES)}")


OF_LIST = {declared.name: declared for declared in options_of(JobList)}


@router.get("/api/jobs", **described("List jobs, newest first", query=OF_LIST, answer=JOBS))
def list_jobs(request: Request) -> Json:
    asked = JobList(**read_query(request, OF_LIST))
    state = request.app.state
    with state.database.reading() as connection:
        found = list_live_jobs(
            connection, state.settings.lease_s, states=asked.state, limit=asked.limit + 1, before=asked.before
        )
    page = found[: asked.limit]
    return Json(
        {"jobs": [job.as_object() for job in page], "next": page[-1].job_id if len(found) > asked.limit else None}
    )


@router.get("/api/jobs/{job}", **described("A job, by its number or name, or `last`", answer=JOB))
def show_job(request: Request, job: str) -> Json:
    read_query(request, {})
    return Json(read_job(request, job))
