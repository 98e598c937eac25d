"""/jobs/new: a form that submits files, for producers: the usual options, and a dry run. Needs no script."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from jobs.choices import Role
from jobs.corpus.corpus_format import Format
from jobs.corpus.translatable.received_files import MOST_FILES
from jobs.errors import KvjobsError, SpecError
from jobs.files.formats import FORMATS
from jobs.operations.option_names import with_names
from jobs.operations.submit import spool_of
from jobs.submission.job_options import OF_EVERY_JOB
from jobs.tasks.kinds import KINDS, every_option
from jobs.tasks.option import Option
from jobs.tasks.task import Task
from jobs.text.formatting import counted
from jobs.web.access import require_own_form
from jobs.web.api.submit import count_upload, ingesting, planned, submit_upload
from jobs.web.api.submit_options import asked_for
from jobs.web.multipart import FileForm, pieces_of_files
from jobs.web.pages.actions import refuse_read_only
from jobs.web.rendering import render, status_code_of
from jobs.web.uploads import upload_file, write_pieces
from jobs.web.visitors import require
from jobs.worker_port import worker_port

FILES, FOLDER = "corpus", "folder"
DRY_RUN = "dry_run"  # the button of that value
OF_ALL = ("name", "priority", "max_rejected", "id_field", "text_field")
# Options of tasks that people set most; the command line has all.
USUAL = (
    *("source_language", "target_language", "beam_size", "max_new_tokens", "glossary", "no_translate"),
    *("temperature", "chat"),
    *("max_length", "stride", "token_scores"),
)
# What stands in the field of an option whose value is on the command line a file.
CONTENT = {
    "glossary": "Terms, as copied from a spreadsheet: a term and its translation a line, a tab between them.",
    "no_translate": "Terms that stay as they are, one a line.",
}
OF_TASKS: Mapping[str, tuple[str, ...]] = {
    task: tuple(name for name in USUAL if name in KINDS[task].offered) for task in map(str, Task)
}
OFFERED: Mapping[str, Option] = {**OF_EVERY_JOB, **every_option()}
TAKEN = {"task", "model", "format", *OF_ALL, *USUAL}

router = APIRouter()


@router.get("/jobs/new")
def new_job(request: Request) -> Response:
    require(request, Role.PRODUCER)
    refuse_read_only(request)
    return _page(request, {})


@router.post("/jobs/new")
async def submit_form(request: Request) -> Response:
    """Make the job and go to its page, or say what keeps it from being made."""
    visitor = require(request, Role.PRODUCER)
    refuse_read_only(request)
    form = FileForm((FILES, FOLDER), most_files=MOST_FILES)
    spool = spool_of(request.app.state.settings)
    with upload_file(spool) as file:
        pieces = _of_our_own(request, form, pieces_of_files(request, form))
        num_bytes = await write_pieces(pieces, file, spool, most_bytes=visitor.max_bytes)
        require_own_form(request, form.text("form_token"))
        try:
            if not num_bytes:
                raise SpecError("there is no document in it; choose a file, or a folder")
            asked = asked_for(_values(form))
            async with planned(request, asked, form.files, file) as (plan, notes):
                if form.text(DRY_RUN):
                    record = await to_thread.run_sync(count_upload, request, plan, limiter=ingesting)
                    shown = {"dry_run": record, "notes": [*map(with_names, notes)], "file_name": _name_of(form)}
                    return await to_thread.run_sync(_page, request, _texts(form), shown)
                submitted = await to_thread.run_sync(submit_upload, request, plan, visitor, notes, limiter=ingesting)
        except KvjobsError as error:
            shown = {"problem": with_names(str(error))}
            return await to_thread.run_sync(_page, request, _texts(form), shown, status_code_of(error))
    return RedirectResponse(f"/jobs/{submitted.job_id}", 303)


async def _of_our_own(request: Request, form: FileForm, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a file, which stands behind the proof that the form is ours: of another nothing is written."""
    async for piece in pieces:
        require_own_form(request, form.text("form_token"))
        yield piece


def _values(form: FileForm) -> dict[str, Any]:
    """The options that were filled in. A task takes its own: those of the other tasks on the page are left out."""
    given = {name: text for name, text in _texts(form).items() if name in TAKEN}
    others = {*USUAL} - {*OF_TASKS.get(given.get("task", ""), ())}
    return {name: OFFERED[name].read_texts([text]) for name, text in given.items() if name not in others}


def _name_of(form: FileForm) -> str:
    return form.files[0].name if len(form.files) == 1 else counted(len(form.files), "file")


def _texts(form: FileForm) -> dict[str, str]:
    """What was filled in. An option of two tasks stands on the page twice."""
    filled = {name: [text.strip() for text in texts if text.strip()] for name, texts in form.texts.items()}
    return {name: texts[-1] for name, texts in filled.items() if texts}


def _page(
    request: Request, given: Mapping[str, str], shown: Mapping[str, Any] | None = None, status_code: int = 200
) -> Response:
    """The form with what was given, and what came of it."""
    models = worker_port().installed_models(request.app.state.settings.models_dir)
    data = {
        "given": given,
        "tasks": OF_TASKS,
        "task": given.get("task", str(OF_EVERY_JOB["task"].default)),
        "models": [model for model in models if model.problem is None],
        "formats": [*Format],
        "translated": sorted(FORMATS),
        "of_all": OF_ALL,
        "offered": OFFERED,
        "content": CONTENT,
        "problem": None,
        "dry_run": None,
        "notes": (),
        "file_name": None,
    }
    return render(request, "new_job.html", data | dict(shown or {}), status_code)
