"""POST /api/jobs and /api/dry-run: the body is a corpus, one of files or a form of them, the query string has the
options of `kvjobs submit`.

A job is made whole also where its client goes away while it is made; the same request then finds it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, BinaryIO

from anyio import CancelScope, CapacityLimiter, to_thread
from fastapi import APIRouter, Request

from jobs.choices import Role
from jobs.corpus.corpus import UPLOAD
from jobs.corpus.translatable.received_files import MOST_FILES, most_unpacked
from jobs.errors import CorpusError, SpecError
from jobs.operations.option_names import with_names
from jobs.operations.plan import SubmitPlan, advice_on, plan_submit
from jobs.operations.received_corpus import SentFile, are_files, received_corpus
from jobs.operations.stalled_job import no_worker_message
from jobs.operations.submit import count_plan, notified, spool_of, submit_plan, wake_workers
from jobs.store.schema.states import ENDED_STATES
from jobs.submission.dry_run import dry_run_record
from jobs.submission.submitted_job import PriorState, SubmittedJob
from jobs.web.api.answers import Json, read_job
from jobs.web.api.openapi import described
from jobs.web.api.schemas import CORPUS, DRY_RUN, SUBMITTED
from jobs.web.api.submit_options import IDEMPOTENCY_KEY, OF_DRY_RUN, OF_SUBMIT, Asked, name_of_body, read_submit
from jobs.web.multipart import FileForm, is_form, pieces_of_files
from jobs.web.pages.actions import refuse_read_only
from jobs.web.uploads import check_room, upload_file, write_pieces
from jobs.web.visitors import Visitor, require, visitor_of

router = APIRouter()

KEY = {IDEMPOTENCY_KEY: "the same as `key`: with the same key and options it is the same job, however often it is sent"}
MADE = {201: "the job was made", 200: "it was made before"}

# Threads: an ingest takes as long as its corpus is large, and whoever asks for less should not wait behind it.
planning, ingesting = CapacityLimiter(4), CapacityLimiter(4)


@router.post(
    "/api/jobs",
    **described("Make a job of a corpus", query=OF_SUBMIT, body=CORPUS, answer=SUBMITTED, status=MADE, headers=KEY),
)
async def submit_corpus(request: Request) -> Json:
    visitor = require(request, Role.PRODUCER)
    refuse_read_only(request)
    asked = read_submit(request)
    if asked.is_open:
        return await _open(request, asked, visitor)
    async with uploaded(request, asked, visitor) as (plan, notes):
        submitted = await to_thread.run_sync(submit_upload, request, plan, visitor, notes, limiter=ingesting)
    return await _answer(request, submitted.job_id, submitted.prior_state, notes)


@router.post(
    "/api/dry-run",
    **described("Count what a job of a corpus would compute", query=OF_DRY_RUN, body=CORPUS, answer=DRY_RUN),
)
async def dry_run(request: Request) -> Json:
    visitor = require(request, Role.PRODUCER)
    async with uploaded(request, read_submit(request, OF_DRY_RUN), visitor) as (plan, notes):
        record = await to_thread.run_sync(count_upload, request, plan, limiter=ingesting)
    return Json(record | {"notes": [*map(with_names, notes)]})


@asynccontextmanager
async def uploaded(request: Request, asked: Asked, visitor: Visitor) -> AsyncIterator[tuple[SubmitPlan, list[str]]]:
    """The plan of a submit whose corpus is the body, or the files of a form, once that has come; and notes. Of a long
    body of documents it is planned twice: what cannot be done is said while the body comes."""
    spool = spool_of(request.app.state.settings)
    form = FileForm(most_files=MOST_FILES) if is_form(request) else None
    body = [SentFile(name_of_body(request, asked))]
    early = None

    async def plan() -> None:
        async with planned(request, asked, body, file):
            pass

    if form is None and not are_files(body, asked.request.job.format):
        early = _tolerant(plan)
    with upload_file(spool) as file:
        declared = int(request.headers.get("content-length", 0))
        pieces = request.stream() if form is None else pieces_of_files(request, form)
        num_bytes = await write_pieces(
            pieces, file, spool, declared=declared, most_bytes=visitor.max_bytes, early=early
        )
        body[0].num_bytes = num_bytes
        async with planned(request, asked, body if form is None else _files_of(form), file) as found:
            yield found


@asynccontextmanager
async def planned(
    request: Request, asked: Asked, sent: Sequence[SentFile], content: BinaryIO
) -> AsyncIterator[tuple[SubmitPlan, list[str]]]:
    """The plan of a submit of what was sent, and notes. Files that come back translated are on the disk while the block
    lasts."""
    limiter = planning
    if are_files(sent, asked.request.job.format):
        limiter = ingesting
        await check_room(spool_of(request.app.state.settings), most_unpacked(sum(file.num_bytes for file in sent)))
    with ExitStack() as stack:
        try:
            yield await to_thread.run_sync(_plan, request, asked, sent, content, stack, limiter=limiter)
        finally:
            with CancelScope(shield=True):
                await to_thread.run_sync(stack.close, limiter=limiter)


def _plan(
    request: Request, asked: Asked, sent: Sequence[SentFile], content: BinaryIO, stack: ExitStack
) -> tuple[SubmitPlan, list[str]]:
    state, notes = request.app.state, list[str]()
    notified(asked.request.job.notify, state.settings, visitor_of(request).name)
    submit_request, corpus = stack.enter_context(
        received_corpus(asked.request, sent, content, spool_of(state.settings), UPLOAD)
    )
    corpus = replace(corpus, field_types=asked.field_types)
    plan = plan_submit(submit_request, corpus, state.settings, tell=notes.append, admissions=state.admissions)
    return plan, [*notes, *advice_on(plan, state.settings)]


def _files_of(form: FileForm) -> Sequence[SentFile]:
    if not form.files:
        raise SpecError("the form has no file; send one or several: curl -F file=@app.po URL")
    if form.texts:
        raise SpecError(
            f"the form has the field {next(iter(form.texts))[:100]!r}; options stand in the address: ?name="
        )
    return form.files


def _tolerant(plan: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
    """The same, but for what is wrong with the corpus: only its beginning is there."""

    async def plan_early() -> None:
        with suppress(CorpusError):
            await plan()

    return plan_early


def count_upload(request: Request, plan: SubmitPlan) -> dict[str, Any]:
    """What a job of an upload would compute."""
    state = request.app.state
    counted, tokens_per_s = count_plan(state.database, plan, state.settings)
    return dry_run_record(counted, plan.spec, plan.stages, tokens_per_s)


def submit_upload(request: Request, plan: SubmitPlan, visitor: Visitor, notes: list[str]) -> SubmittedJob:
    """Make the job of an upload, or find it; notes are added."""
    database, settings = request.app.state.database, request.app.state.settings
    submitted = submit_plan(database, plan, settings, owner=visitor.name, max_open=visitor.max_jobs)
    notes += submitted.notes(plan.request.job.name)
    if problem := wake_workers(database, submitted, settings):
        notes.append(problem)
    if submitted.prior_state is not PriorState.COMPLETE and (
        no_worker := no_worker_message(database, plan.request.job.queue, plan.spec.model, settings.lease_s)
    ):
        notes.append(no_worker)
    return submitted


async def _open(request: Request, asked: Asked, visitor: Visitor) -> Json:
    if await request.body():
        raise SpecError("an open job has no corpus; open it without a body, then send documents to it")
    job_id, is_new, notes = await to_thread.run_sync(_open_job, request, asked, visitor, limiter=planning)
    return await _answer(request, job_id, PriorState.NEW if is_new else None, notes)


def _open_job(request: Request, asked: Asked, visitor: Visitor) -> tuple[int, bool, list[str]]:
    state, notes = request.app.state, list[str]()
    job_id, is_new = state.open_jobs.open(
        asked.request,
        tell=notes.append,
        admissions=state.admissions,
        owner=visitor.name,
        max_open=visitor.max_jobs,
    )
    return job_id, is_new, notes


async def _answer(request: Request, job_id: int, prior_state: PriorState | None, notes: Sequence[str]) -> Json:
    """The job; `prior_state`: None for an open job that was there before."""
    job = await to_thread.run_sync(read_job, request, str(job_id))
    if prior_state is None:
        prior_state = PriorState.COMPLETE if job["state"] in ENDED_STATES else PriorState.RUNNING
    answer = {"job": job, "prior_state": prior_state, "notes": [*map(with_names, notes)]}
    return Json(answer, 201 if prior_state is PriorState.NEW else 200)
