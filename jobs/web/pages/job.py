"""/jobs/N: one job."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from jobs.store.report.failures import failures
from jobs.store.report.job_summary import LARGEST_ID, find_job
from jobs.web.rendering import add_page
from jobs.web.store_access import Reading

JobId = Annotated[int, Path(ge=1, le=LARGEST_ID)]

router = APIRouter()


def job(connection: Reading, job_id: JobId) -> dict[str, Any]:
    found = find_job(connection, str(job_id))
    return {"job": found, "failures": failures(connection, found)}


add_page(router, "/jobs/{job_id:int}", "job.html", job)
