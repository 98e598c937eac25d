"""GET /api/jobs/{job}/files: the files of a job whose corpus is files; /files/PATH: one of them, translated as far as
that has come. (All of them are /api/jobs/{job}/results?format=files.)"""

from dataclasses import dataclass
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from jobs.export.file_streams import one_file
from jobs.number_ranges import EVERY_ID, Whole
from jobs.store.job_files import list_files
from jobs.store.report.job_summary import find_job
from jobs.tasks.option import option, options_of
from jobs.web.api.answers import Json
from jobs.web.api.openapi import described
from jobs.web.api.query import read_query
from jobs.web.api.schemas import FILES
from jobs.web.streaming import WatchedDatabase, makers

router = APIRouter()
OCTETS = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """Which files are listed."""

    limit: int = option(1000, "At most so many files.", Whole(1, 10_000))
    after: int | None = option(None, "Only files behind this one: the `next` of an earlier answer.", EVERY_ID)


OF_LIST = {declared.name: declared for declared in options_of(FileList)}


@router.get(
    "/api/jobs/{job}/files",
    **described("The files of a job that come back translated, and how far each is", query=OF_LIST, answer=FILES),
)
def files(request: Request, job: str) -> Json:
    asked = FileList(**read_query(request, OF_LIST))
    after = -1 if asked.after is None else asked.after
    with request.app.state.database.reading() as connection:
        found = find_job(connection, job)
        listed = list_files(connection, found.job_id, found.chain or found.job_id, asked.limit + 1, after=after)
    page = listed[: asked.limit]
    return Json(
        {"files": [file.as_object() for file in page], "next": page[-1].number if len(listed) > asked.limit else None}
    )


@router.get(
    "/api/jobs/{job}/files/{path:path}",
    **described("One file of a job, with the translations that there are", answer={}, media_types=[OCTETS]),
)
async def file(request: Request, job: str, path: str) -> Response:
    read_query(request, {})
    return await to_thread.run_sync(file_answer, request, job, path, limiter=makers)


def file_answer(request: Request, job: str, path: str) -> Response:
    """A file to be saved, whatever it holds: nothing of it is shown as a page of ours. Raises NotFoundError."""
    database = WatchedDatabase(request.app.state.database)
    with database.reading() as connection:
        found = find_job(connection, job)
    name = quote(path.rpartition("/")[2], safe="")
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(one_file(database, found, path), media_type=OCTETS, headers=headers)
