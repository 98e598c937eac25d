"""/jobs/N/export: a file of the documents that a list shows, as `kvjobs export` writes it."""

from itertools import chain as in_turn
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from jobs.choices import Only
from jobs.corpus.lines import BOM
from jobs.corpus.original import CorpusLayout
from jobs.corpus.translatable.stored_reading import reading_of_files
from jobs.export.export_formats import Format
from jobs.export.export_options import WITH_EXTRAS, Export, check_chain_format, check_format
from jobs.export.result_lines import result_lines
from jobs.store.report.job_summary import JobSummary, find_chain, find_job
from jobs.web.document_view.document_filter import FilterOfAddress
from jobs.web.pages.documents import FOR_EXCEL, selection_of
from jobs.web.parameters import JobId
from jobs.web.streaming import WatchedDatabase, made_in_threads

SUFFIXES = {"trec": "run", "cohere": "jsonl", "openai": "jsonl"}  # where it is not the name of the format
TYPES = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values",
    "parquet": "application/vnd.apache.parquet",
    "files": "application/octet-stream",  # one file, or a zip of several
}

router = APIRouter()


@router.get("/jobs/{job_id:int}/export")
def download(
    request: Request,
    job_id: JobId,
    asked: FilterOfAddress,
    chosen: Annotated[Format | Literal["excel"], Query(alias="format")] = Format.JSONL,
    chain: bool = False,
) -> StreamingResponse:
    """Every document that meets the conditions, in the order of the corpus; with `chain` the results of all stages.
    What is wrong is said before the file begins; an error in the middle of it breaks the connection, so that a browser
    reports it."""
    database = WatchedDatabase(request.app.state.database)
    form = Format.CSV if chosen == FOR_EXCEL else Format(chosen)
    with request.app.state.database.reading() as connection:
        job = find_job(connection, str(job_id))
        condition = selection_of(connection, job, asked).condition
        is_original = form is Format.ORIGINAL
        written = str(CorpusLayout.parse(job.reading).format) if is_original else form.value
        suffix = suffix_of_files(job) if form is Format.FILES else SUFFIXES.get(written, written)
        stages = find_chain(connection, job) if chain else []
    check_format(form, job.task)
    if stages:
        check_chain_format(form)
    only = Only.ALL if job.waiting and form in WITH_EXTRAS else None
    export = Export(form=form, only=only, condition=condition, stages=stages)
    lines = result_lines(database, job, form, export, tell=_ignored)
    head = (BOM if chosen == FOR_EXCEL else b"") + next(lines)
    what = f"chain-{job.chain}" if stages else f"job-{job_id}"
    name = f"{what}{'' if asked.is_empty else '-selection'}.{suffix}"
    return StreamingResponse(
        made_in_threads(in_turn([head], lines)),
        media_type=TYPES.get(form.value if form is Format.FILES else suffix, "text/plain; charset=utf-8"),
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


def suffix_of_files(job: JobSummary) -> str:
    """The suffix of what is written of a job's files: that of its one file, or of an archive."""
    how = reading_of_files(job.reading)
    if how is None or not how.is_one:
        return "zip"
    return Path(how.name_of_one(job.source)).suffix.removeprefix(".")


def _ignored(_message: str) -> None:
    """Takes the message that lines come from the database, which the page does not show."""
