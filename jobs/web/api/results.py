"""GET /api/jobs/{job}/results: the bytes that `kvjobs export` writes; with `follow`, lines as documents end."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from jobs.errors import SpecError, TransientError
from jobs.export.export_formats import Format
from jobs.export.running_results import new_results
from jobs.operations.results import OF_RESULTS, ResultOptions, read_results
from jobs.store.database import Database
from jobs.store.report.job_summary import JobSummary, find_job
from jobs.tasks.option import Option
from jobs.web.api.openapi import described
from jobs.web.api.query import read_query
from jobs.web.api.schemas import LINES
from jobs.web.pages.export import TYPES
from jobs.web.streaming import WatchedDatabase, made_in_threads, makers

FOLLOW_EVERY_S = 1.0
QUIET_S = 15.0  # after which a blank line keeps the connection alive

FOLLOW = Option(
    "jsonl alone: each document once as it ends, until the job has ended; a blank line now and then.",
    name="follow",
    type=bool,
    default=False,
)
EXTRAS = OF_RESULTS["extras"]
WITH = "with"  # as on the command line; a word of Python's, so functions call it `extras`
OF_HTTP: Mapping[str, Option] = {
    **{WITH if name == EXTRAS.name else name: option for name, option in OF_RESULTS.items()},
    FOLLOW.name: FOLLOW,
}
TEXT = "text/plain; charset=utf-8"

router = APIRouter()


@router.get(
    "/api/jobs/{job}/results",
    **described(
        "The results of a job, in the order of its corpus",
        query=OF_HTTP,
        answer={},
        media_types=[*TYPES.values(), TEXT],
    ),
)
def results(request: Request, job: str) -> StreamingResponse:
    """What is wrong is said before the first byte; an error after it breaks the connection."""
    values, database = read_query(request, OF_HTTP), request.app.state.database
    if values.pop(FOLLOW.name, False):
        if values.keys() - {"format"} or values.get("format", Format.JSONL) is not Format.JSONL:
            raise SpecError("follow sends every document as jsonl; leave the other options out")
        with database.reading() as connection:
            found = find_job(connection, job)
        return StreamingResponse(_followed(database, found), media_type=LINES)
    if WITH in values:
        values[EXTRAS.name] = values.pop(WITH)
    options = ResultOptions.read(values)
    pieces = read_results(WatchedDatabase(database), job, options, tell=_ignored)
    return StreamingResponse(made_in_threads(pieces), media_type=TYPES.get(options.format, TEXT))


async def _followed(database: Database, job: JobSummary) -> AsyncIterator[bytes]:
    """Each document as it ends. While the database is away, nothing."""
    place, quiet_s = "", 0.0
    while True:
        try:
            found = await to_thread.run_sync(new_results, database, job, place, limiter=makers)
        except TransientError:
            lines = list[bytes]()
        else:
            lines, place = found.lines, found.place
            if lines:
                yield b"".join(lines)
            if found.is_last:
                return
        if lines:
            quiet_s = 0.0
        if len(lines) < A_FULL_ANSWER:
            await asyncio.sleep(FOLLOW_EVERY_S)
            quiet_s += FOLLOW_EVERY_S
        if quiet_s >= QUIET_S:
            yield b"\n"
            quiet_s = 0.0


A_FULL_ANSWER = 500  # lines of `new_results`: there may be more at once


def _ignored(_message: str) -> None:
    """Takes the message that lines come from the database, which is no part of the results."""
