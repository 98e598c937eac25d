"""/jobs/N/files: the files of a job that come back translated; /jobs/N/files/PATH: one of them, as it is now."""

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from sqlalchemy import Connection
from starlette.responses import Response

from jobs.store.job_files import count_files, list_files
from jobs.store.report.job_summary import LARGEST_ID, JobSummary
from jobs.store.report.live_job import find_live_job
from jobs.web.api.files import file_answer
from jobs.web.parameters import JobId, Reading, SettingsOfApp
from jobs.web.rendering import add_page
from jobs.web.streaming import makers

FILES_SHOWN = 20  # on the page of a job; all are on a page of their own
FILES_A_PAGE = 200

router = APIRouter()


@router.get("/jobs/{job_id:int}/files/{path:path}")
async def download_file(request: Request, job_id: JobId, path: str) -> Response:
    return await to_thread.run_sync(file_answer, request, str(job_id), path, limiter=makers)


def first_files(connection: Connection, job: JobSummary) -> dict[str, Any]:
    """The first files of a job whose corpus is files, for its page; nothing of another."""
    of_job = job.chain or job.job_id
    if not (number := count_files(connection, of_job)):
        return {}
    return {"files": list_files(connection, job.job_id, of_job, FILES_SHOWN), "num_files": number}


def files(
    connection: Reading,
    settings: SettingsOfApp,
    job_id: JobId,
    after: Annotated[int | None, Query(ge=0, le=LARGEST_ID)] = None,
) -> dict[str, Any]:
    found = find_live_job(connection, str(job_id), settings.lease_s)
    of_job = found.chain or job_id
    listed = list_files(connection, job_id, of_job, FILES_A_PAGE + 1, after=-1 if after is None else after)
    page = listed[:FILES_A_PAGE]
    return {
        "job": found,
        "files": page,
        "num_files": count_files(connection, of_job),
        "after": after,
        "next_after": page[-1].number if len(listed) > FILES_A_PAGE else None,
    }


add_page(router, "/jobs/{job_id:int}/files", "job_files.html", files)
