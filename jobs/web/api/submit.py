"""POST /api/jobs and /api/dry-run: the body is a corpus, the query string has the options of `kvjobs submit`.

A job is made whole also where its client goes away while it is made; the same request then finds it.
"""

from typing import BinaryIO

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request

from jobs.choices import Role
from jobs.corpus.corpus import UPLOAD
from jobs.operations.option_names import with_names
from jobs.operations.plan import CorpusFile, SubmitPlan, advice_on, plan_submit
from jobs.operations.stalled_job import no_worker_message
from jobs.operations.submit import count_plan, spool_of, submit_plan, wake_workers
from jobs.submission.dry_run import dry_run_record
from jobs.submission.submitted_job import PriorState, SubmittedJob
from jobs.web.api.answers import Json, read_job
from jobs.web.api.openapi import described
from jobs.web.api.schemas import CORPUS, DRY_RUN, SUBMITTED
from jobs.web.api.submit_options import IDEMPOTENCY_KEY, OF_DRY_RUN, OF_SUBMIT, Asked, read_submit
from jobs.web.api.uploads import receive, upload_file
from jobs.web.pages.actions import refuse_read_only
from jobs.web.visitors import Visitor, require

router = APIRouter()

KEY = {IDEMPOTENCY_KEY: "the same as `key`: with the same key and options it is the same job, however often it is sent"}
MADE = {201: "the job was made", 200: "it was made before"}

# Threads: an ingest takes as long as its corpus is large, and whoever asks for less should not wait behind it.
_planning, _ingesting = CapacityLimiter(4), CapacityLimiter(4)


@router.post(
    "/api/jobs",
    **described("Make a job of a corpus", query=OF_SUBMIT, body=CORPUS, answer=SUBMITTED, status=MADE, headers=KEY),
)
async def submit_corpus(request: Request) -> Json:
    visitor = require(request, Role.PRODUCER)
    refuse_read_only(request)
    asked = read_submit(request)
    spool = spool_of(request.app.state.settings)
    with upload_file(spool) as file:
        plan, notes = await to_thread.run_sync(_plan, request, asked, file, limiter=_planning)
        await receive(request, file, spool, visitor.max_bytes)
        submitted = await to_thread.run_sync(_submit, request, plan, visitor, notes, limiter=_ingesting)
    job = await to_thread.run_sync(read_job, request, str(submitted.job_id))
    is_new = submitted.prior_state is PriorState.NEW
    answer = {"job": job, "prior_state": submitted.prior_state, "notes": [*map(with_names, notes)]}
    return Json(answer, 201 if is_new else 200)


@router.post(
    "/api/dry-run",
    **described("Count what a job of a corpus would compute", query=OF_DRY_RUN, body=CORPUS, answer=DRY_RUN),
)
async def dry_run(request: Request) -> Json:
    visitor = require(request, Role.PRODUCER)
    asked = read_submit(request, OF_DRY_RUN)
    spool = spool_of(request.app.state.settings)
    with upload_file(spool) as file:
        plan, notes = await to_thread.run_sync(_plan, request, asked, file, limiter=_planning)
        await receive(request, file, spool, visitor.max_bytes)
        state = request.app.state
        counted, tokens_per_s = await to_thread.run_sync(
            count_plan, state.database, plan, state.settings, limiter=_ingesting
        )
    record = dry_run_record(counted, plan.spec, plan.stages, tokens_per_s)
    return Json(record | {"notes": [*map(with_names, notes)]})


def _plan(request: Request, asked: Asked, file: BinaryIO) -> tuple[SubmitPlan, list[str]]:
    """The plan, before the corpus has come: what cannot be done is said before it is sent."""
    state, notes = request.app.state, list[str]()
    corpus = CorpusFile(path="-", stream=file, source=UPLOAD, field_types=asked.field_types)
    plan = plan_submit(asked.request, corpus, state.settings, tell=notes.append, admissions=state.admissions)
    return plan, [*notes, *advice_on(plan, state.settings)]


def _submit(request: Request, plan: SubmitPlan, visitor: Visitor, notes: list[str]) -> SubmittedJob:
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
