"""Carrying out a plan: making the job and waking workers for it, or only counting what it would compute."""

from pathlib import Path

from jobs.errors import SpecError
from jobs.operations.plan import SubmitPlan
from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.report.timings.speed import past_speed
from jobs.submission.dry_run import DryRun
from jobs.submission.progress import OnProgress
from jobs.submission.submit import submit
from jobs.submission.submitted_job import PriorState, SubmittedJob
from jobs.worker_port import worker_port


def submit_plan(
    database: Database,
    plan: SubmitPlan,
    settings: Settings,
    on_progress: OnProgress | None = None,
    *,
    owner: str | None = None,
    max_open: int | None = None,
) -> SubmittedJob:
    """Make the job of a plan, or find it. `owner`: who submits it, and may have `max_open` open jobs. Raises what
    `submit` raises, and SpecError where the job was cancelled: no worker processes it, so waiting for it would never
    end."""
    job = plan.request.job
    submitted = submit(
        database,
        plan.corpus,
        plan.spec,
        stages=plan.stages,
        name=job.name,
        key=job.key,
        priority=job.priority,
        queue=job.queue,
        strict=job.strict,
        max_rejected=job.max_rejected,
        again=job.again,
        owner=owner,
        max_open=max_open,
        notify=notified(job.notify, settings, owner),
        spool=spool_of(settings),
        on_progress=on_progress,
    )
    if submitted.prior_state is PriorState.CANCELLED:
        raise SpecError(
            f"job {submitted.job_id} has this corpus and these options, and was cancelled; to continue it: kvjobs "
            f"retry {submitted.job_id}, and for a new job submit with --again"
        )
    return submitted


def notified(url: str | None, settings: Settings, owner: str | None) -> list[str]:
    """The addresses that get a webhook when the job ends: that of the job, and that of the settings. Raises SpecError
    where nothing could be signed, and where a visitor of the dashboard names this machine, which is not its own."""
    urls = list(dict.fromkeys(filter(None, (url, settings.notify_url))))
    if urls and not settings.notify_secret:
        raise SpecError(
            "webhooks are signed, and there is no secret; set KVJOBS_NOTIFY_SECRET=whsec_$(openssl rand -base64 32), "
            "here and for workers"
        )
    is_user = owner is None or "@" in owner  # else a token, or a visitor without one
    if url and url.startswith("http:") and not is_user and not settings.notify_private:
        raise SpecError("over HTTP the address of a webhook has to be https; the setting notify_private allows http")
    return urls


def wake_workers(database: Database, submitted: SubmittedJob, settings: Settings) -> str | None:
    """Send hints through the broker, after the commit, so that no worker looks for rows that are not there yet. Returns
    a sentence where that failed; workers then find the job by polling."""
    if not settings.broker or submitted.prior_state is PriorState.COMPLETE:
        return None
    from jobs.dispatch.hints import hint_at_once

    if problem := hint_at_once(database, settings):
        return f"The workers could not be notified ({problem}); they find the job by themselves within seconds."
    return None


def count_plan(
    database: Database, plan: SubmitPlan, settings: Settings, on_progress: OnProgress | None = None
) -> tuple[DryRun, float | None]:
    """What the job of a plan would compute, and the speed of earlier jobs of its model in tokens/s; None: there was
    none. Raises what `WorkerPort.count_work` raises."""
    counted = worker_port().count_work(
        plan.corpus, plan.spec, plan.stages, settings.models_dir, spool_of(settings), on_progress
    )
    with database.reading() as connection:
        return counted, past_speed(connection, plan.spec.model_revision, plan.spec.task)


def spool_of(settings: Settings) -> Path:
    """The folder of temporary files."""
    return settings.home / "spool"
