"""The commands that change a job's state: pause, resume, cancel, retry. Each prints the change and what to do next."""

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
@click.option("--reason", help="A text that is shown with the job.")
@json_option
@click.pass_obj
def pause(context: Context, reference: str, reason: str | None, as_json: bool) -> None:
    """Pause a job until it is resumed.

    Workers finish the batch that they are processing and keep its results.
    """
    from jobs.store import jobs

    with context.database() as database:
        job = _find(database, reference)
        jobs.pause(database, job.job_id, reason)
        job = _find(database, str(job.job_id))
    print_message(f"Job {job.label} is paused. To resume it: kvjobs resume {job.job_id}")
    if as_json:
        print_job(job, 0)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def resume(context: Context, reference: str, as_json: bool) -> None:
    """Resume a paused job."""
    from jobs.store import jobs

    with context.database() as database:
        job = _find(database, reference)
        jobs.resume(database, job.job_id)
        was, job = job, _find(database, str(job.job_id))
    if job.cancel_requested_at:
        print_message(f"Job {job.label} is being cancelled. To continue it: kvjobs retry {job.job_id}")
    else:
        change = "is resumed" if was.paused else "was not paused"
        print_message(f"Job {job.label} {change}. To follow it: kvjobs watch {job.job_id}")
    if as_json:
        print_job(job, 0, was_paused=was.paused)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def cancel(context: Context, reference: str, as_json: bool) -> None:
    """Cancel the rest of a job; its results are kept.

    Workers finish the batch that they are processing. Cancelling a job twice is harmless.
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
        print_message(f"To export them: kvjobs export {job.job_id} --only ok -o FILE")
        print_message(f"To continue the job: kvjobs retry {job.job_id}")
    else:
        print_message(f"Workers are still finishing their batches. To wait for them: kvjobs wait {job.job_id}")
    if as_json:
        print_job(job, 0, changed=cancelled)


@click.command()
@click.argument("reference", metavar="JOB")
@json_option
@click.pass_obj
def retry(context: Context, reference: str, as_json: bool) -> None:
    """Process failed, quarantined and cancelled documents again.

    A quarantined document is one that ends every process that works on it. A cancelled job continues. Results are
    kept. Rejected lines stay rejected: correct the corpus and submit it again.
    """
    from jobs.advice.next_command import next_command
    from jobs.store import jobs
    from jobs.store.schema.states import JobState

    with context.database() as database:
        job = _find(database, reference)
        again = jobs.retry(database, job.job_id)
        was, job = job, _find(database, str(job.job_id))
    if job.state == JobState.INGESTING:
        print_message(f"Job {job.label} continues. To read the rest of its corpus: {next_command(job)}")
    elif again or was.state != job.state:
        print_message(
            f"{counted(again, 'document')} of job {job.label} will run again. To follow it: kvjobs watch {job.job_id}"
        )
    else:
        print_message(f"Job {job.label} has no failed, quarantined or cancelled document; nothing changed.")
    if as_json:
        print_job(job, 0, changed=again)


def _find(database: "Database", reference: str) -> "JobSummary":
    from jobs.store.report.job_summary import find_job

    with database.reading() as connection:
        return find_job(connection, reference)
