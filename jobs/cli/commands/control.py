"""What changes the state of a job: pause, resume, cancel, retry. Each says what it changed and what comes next."""

from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.job_exit import json_option, print_job
from jobs.cli.render.messages import print_message
from jobs.formatting import counted

if TYPE_CHECKING:
    from jobs.store.database import Database
    from jobs.store.report.job_summary import JobSummary


@click.command()
@click.argument("reference", metavar="JOB")
@click.option("--reason", help="Shown with the job.")
@json_option
@click.pass_obj
def pause(context: Context, reference: str, reason: str | None, as_json: bool) -> None:
    """Start no more work of a job until it is resumed.

    Workers end the batch in hand and keep its results.
    """
    from jobs.store import jobs

    with context.database() as database:
        job = _find(database, reference)
        jobs.pause(database, job.job_id, reason)
        job = _find(database, str(job.job_id))
    print_message(f"Job {job.label} is paused. To go on: kvjobs resume {job.job_id}")
    if as_json:
        print_job(job, 0)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def resume(context: Context, reference: str, as_json: bool) -> None:
    """Let a paused job go on."""
    from jobs.store import jobs

    with context.database() as database:
        job = _find(database, reference)
        jobs.resume(database, job.job_id)
        was, job = job, _find(database, str(job.job_id))
    if job.cancel_requested_at:
        print_message(f"Job {job.label} is being cancelled. To take it up again: kvjobs retry {job.job_id}")
    else:
        told = "goes on" if was.paused else "was not paused"
        print_message(f"Job {job.label} {told}. To follow it: kvjobs watch {job.job_id}")
    if as_json:
        print_job(job, 0, was_paused=was.paused)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def cancel(context: Context, reference: str, as_json: bool) -> None:
    """Give up what a job has not done yet; results stay.

    A worker that is busy with the job ends the batch in hand first. Doing it twice is harmless.
    """
    from jobs.store import jobs

    with context.database() as database:
        job = _find(database, reference)
        cancelled = jobs.cancel(database, job.job_id)
        job = _find(database, str(job.job_id))
    print_message(
        f"{counted(cancelled, 'document')} of job {job.label} cancelled; {counted(job.succeeded, 'result')} kept."
    )
    if job.has_ended:
        print_message(f"To write them: kvjobs export {job.job_id} --only ok -o FILE")
        print_message(f"To take it up again: kvjobs retry {job.job_id}")
    else:
        print_message(f"Workers still end the batches they hold. To wait for them: kvjobs wait {job.job_id}")
    if as_json:
        print_job(job, 0, changed=cancelled)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def retry(context: Context, reference: str, as_json: bool) -> None:
    """Put failed, quarantined and cancelled documents back to work.

    A job that was cancelled goes on. Rejected lines stay rejected: mend the corpus and submit it again. Results stay
    as they are.
    """
    from jobs.cli.render.job_page import next_command
    from jobs.store import jobs
    from jobs.store.schema.states import JobState

    with context.database() as database:
        job = _find(database, reference)
        again = jobs.retry(database, job.job_id)
        was, job = job, _find(database, str(job.job_id))
    if job.state == JobState.INGESTING:
        print_message(f"Job {job.label} is taken up again. To read the rest of its corpus: {next_command(job)}")
    elif again or was.state != job.state:
        print_message(
            f"{counted(again, 'document')} of job {job.label} put back. To follow it: kvjobs watch {job.job_id}"
        )
    else:
        print_message(f"Job {job.label} has no failed, quarantined or cancelled document; nothing changed.")
    if as_json:
        print_job(job, 0, changed=again)


def _find(database: "Database", reference: str) -> "JobSummary":
    from jobs.store.report.job_summary import find_job

    with database.reading() as connection:
        return find_job(connection, reference)
