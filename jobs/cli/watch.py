"""`kvjobs watch` and `kvjobs wait`: until the job has ended."""

from typing import TYPE_CHECKING

import click

from jobs.cli.context import Context
from jobs.cli.show import next_command
from jobs.cli.terminal import say
from jobs.cli.wording import counted

if TYPE_CHECKING:
    from jobs.store.progress import JobSummary

TIMED_OUT = 4


@click.command()
@click.argument("reference", metavar="JOB")
@click.pass_obj
def watch(context: Context, reference: str) -> int:
    """Follow a job until it ends.

    Documents and tokens done, tokens per second over the last minute, the time left as the tokens left say, and what
    failed. Leaving with Ctrl-C does not disturb the job. The exit code is that of `kvjobs wait`.
    """
    from jobs.cli.follow import StuckHint, follow, progress
    from jobs.store.progress import find_job

    with context.database() as database:
        with database.reading() as connection:
            job = find_job(connection, reference)
        hint = StuckHint(database)
        with progress() as shown:

            def update(summary: "JobSummary") -> None:
                hint.update(summary)
                shown.update(summary, hint.note)

            job = follow(database, job.job_id, update)
    say(f"Next: {next_command(job)}")
    return job.exit_code or 0


@click.command()
@click.argument("reference", metavar="JOB")
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="How long to wait at most.  [default: no end]"
)
@click.pass_obj
def wait(context: Context, reference: str, timeout: float | None) -> int:
    """Wait until a job ends; its outcome is the exit code.

    0: every document succeeded. 3: some failed, were rejected or cancelled. 1: its corpus was never read to the end.
    4: it has not ended within the timeout.
    """
    from jobs.cli.follow import StuckHint, follow
    from jobs.store.progress import find_job

    with context.database() as database:
        with database.reading() as connection:
            job = find_job(connection, reference)
        job = follow(database, job.job_id, StuckHint(database).update, timeout_s=timeout)
    if job.exit_code is None:
        say(f"Job {job.label} has not ended after {timeout:g} s; still waiting: {counted(job.waiting, 'document')}.")
        return TIMED_OUT
    say(f"Job {job.label} is {job.state}: {job.succeeded:,} of {counted(job.documents, 'document')} succeeded.")
    return job.exit_code
